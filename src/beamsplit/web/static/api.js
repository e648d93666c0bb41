// The API of the server, as promises.

/** An error that the server answered with. */
export class Refused extends Error {
  constructor(status, line, retryAfter = 0) {
    super(line);
    this.status = status;
    this.retryAfter = retryAfter; // seconds, or 0 if it is of no use to try again
  }
}

export async function catalogue() {
  const answer = await fetch("/api/models");
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/** Search: call `onStep` with every step, and return a promise of the result. */
export async function search(request, signal, onStep) {
  const answer = await fetch("/api/search", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(request),
    signal,
  });
  if (!answer.ok) throw await refusal(answer);
  for await (const [name, data] of events(answer.body)) {
    if (name === "done") return data;
    if (name === "error") throw new Refused(200, data.error);
    onStep(data);
  }
  throw new Error("the answer was cut off");
}

async function refusal(answer) {
  const retryAfter = Number(answer.headers.get("retry-after") ?? 0);
  try {
    return new Refused(answer.status, (await answer.json()).error, retryAfter);
  } catch {
    return new Refused(answer.status, `the server answered ${answer.status} ${answer.statusText}`, retryAfter);
  }
}

/** Read server-sent events from a stream of bytes, as pairs of a name and data. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      parts.push(value);
      // An event may come in hundreds of pieces: join them only once one of them contains its end.
      if (!`${parts.at(-2)?.slice(-1) ?? ""}${value}`.includes("\n\n")) continue;
      const blocks = parts.join("").split("\n\n");
      parts = [blocks.pop()];
      for (const block of blocks) yield event(block);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function event(block) {
  const lines = block.split("\n");
  const after = (key) => lines.find((line) => line.startsWith(key)).slice(key.length);
  return [after("event: "), JSON.parse(after("data: "))];
}
