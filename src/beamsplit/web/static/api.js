// The interface of the server, as promises.

/** Something that the server refused, in its words. */
export class Refused extends Error {
  constructor(status, line, again = 0) {
    super(line);
    this.status = status;
    this.again = again; // seconds after which to ask again, if that helps
  }
}

export async function catalogue() {
  const answer = await fetch("/api/models");
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/** Ask for a search: `onStep` is called with every step, and the promise is for what was found. */
export async function search(asked, signal, onStep) {
  const answer = await fetch("/api/search", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(asked),
    signal,
  });
  if (!answer.ok) throw await refusal(answer);
  for await (const [name, said] of events(answer.body)) {
    if (name === "done") return said;
    if (name === "error") throw new Refused(200, said.error);
    onStep(said);
  }
  throw new Error("the answer was cut off");
}

async function refusal(answer) {
  const again = Number(answer.headers.get("retry-after") ?? 0);
  try {
    return new Refused(answer.status, (await answer.json()).error, again);
  } catch {
    return new Refused(answer.status, `the server answered ${answer.status} ${answer.statusText}`, again);
  }
}

/** Server-sent events from a stream of bytes: pairs of a name and what it says. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      parts.push(value);
      // An event may come in hundreds of pieces: they are joined when one of them has an end in it.
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
