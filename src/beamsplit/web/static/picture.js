// The input picture: a sample of the server, or the user's own, which is chosen, dropped or pasted. It is
// sent to the server in requests for searches, and nowhere else.

import { make } from "./view.js";

const at = (id) => document.getElementById(id);

export class PictureInput {
  /** `onChange` is called with a sample's name, or with "" for the user's own picture. */
  constructor(samples, limits, onChange, onError) {
    this.samples = samples;
    this.limits = limits;
    this.onChange = onChange;
    this.onError = onError;
    this.data = null; // the user's own picture, as base64
    this.listen();
    at("samples").replaceChildren(...samples.map((each) => this.thumbnail(each)));
  }

  /** Return the picture for a request, or null if there is none. */
  forRequest(sample) {
    if (sample) return { sample };
    return this.data ? { data: this.data } : null;
  }

  showSample(name) {
    const sample = this.samples.find((each) => each.name === name);
    this.show(sample?.address ?? null, sample ? `Sample: ${sample.title}` : "No picture yet");
    for (const button of at("samples").children) button.setAttribute("aria-pressed", String(button.value === name));
  }

  async take(file) {
    if (!file) return;
    const wrong = this.wrongWith(file);
    if (wrong) return this.onError(wrong);
    const address = URL.createObjectURL(file);
    if (!(await canBeShown(address))) {
      URL.revokeObjectURL(address);
      return this.onError(`${file.name} cannot be shown, so it is damaged or no picture: choose a JPEG or PNG file`);
    }
    this.data = await base64(file);
    this.showSample("");
    this.show(address, file.name || "Pasted picture");
    this.onChange("");
  }

  wrongWith({ name, type, size }) {
    if (!type.startsWith("image/")) return `${name} is not a picture: choose a JPEG or PNG file`;
    if (size === 0) return `${name} is empty: choose another file`;
    if (size <= this.limits.picture_bytes) return "";
    const [has, most] = [(size / 1e6).toFixed(1), (this.limits.picture_bytes / 1e6).toFixed(0)];
    return `${name} has ${has} MB, and the limit is ${most}: choose a smaller one`;
  }

  show(address, name) {
    const preview = at("preview");
    if (preview.src.startsWith("blob:")) URL.revokeObjectURL(preview.src);
    preview.hidden = !address;
    if (address) preview.src = address;
    else preview.removeAttribute("src");
    preview.alt = name;
    at("no-picture").hidden = Boolean(address);
    at("picture-name").textContent = name;
  }

  thumbnail({ name, title, address }) {
    const image = make("img");
    image.src = address;
    image.alt = title;
    image.width = 104;
    image.height = 78;
    const button = make("button", "", image);
    button.type = "button";
    button.value = name;
    button.title = title;
    button.addEventListener("click", () => {
      this.showSample(name);
      this.onChange(name);
    });
    return button;
  }

  listen() {
    at("file").addEventListener("change", (event) => {
      this.take(event.target.files[0]);
      event.target.value = ""; // so that the same file can be chosen again
    });
    // On the whole page, because the browser would open a picture that is dropped elsewhere.
    for (const name of ["dragenter", "dragover"]) document.addEventListener(name, (event) => this.hover(event, true));
    for (const name of ["dragleave", "drop"]) document.addEventListener(name, (event) => this.hover(event, false));
    document.addEventListener("drop", (event) => this.dropped(event.dataTransfer));
    document.addEventListener("paste", (event) => {
      const file = [...event.clipboardData.files].find((each) => each.type.startsWith("image/"));
      if (file && !at("of-picture").hidden) this.take(file);
    });
  }

  dropped({ files, types }) {
    if (at("of-picture").hidden) return;
    if (files.length) this.take(files[0]);
    else if (types.includes("text/uri-list")) this.onError("that is the address of a picture: save it first, then drop the file");
  }

  hover(event, isOver) {
    const isText = !event.dataTransfer.types.some((type) => type === "Files" || type === "text/uri-list");
    if (isText) return; // text fields handle it
    event.preventDefault();
    at("drop").classList.toggle("over", isOver);
  }
}

async function canBeShown(address) {
  const image = new Image();
  image.src = address;
  return image.decode().then(() => true, () => false);
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const parts = [];
  for (let i = 0; i < bytes.length; i += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(i, i + 0x8000)));
  return btoa(parts.join(""));
}
