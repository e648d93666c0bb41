"""GPU kernels. Each has a twin in plain torch that gives the same results, bit for bit, and takes over where
there is no GPU, no Triton or a case that the kernel does not know.
"""
