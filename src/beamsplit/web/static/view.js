// What was found, on the page. Words are only ever put in as text.

const COLOURS = 6;

/** An element with a class and what is in it. */
export function make(name, kind = "", ...content) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...content);
  return made;
}

/** Both lists; `grouped` says of each whether its groups mean anything. */
export function showColumns(found, grouped) {
  const places = document.querySelectorAll(".column");
  found.forEach((column, i) => showColumn(places[i], column, found[1 - i], grouped[i]));
}

function showColumn(place, column, other, grouped) {
  place.querySelector("ol").replaceChildren(...column.hypotheses.map((each, i) => row(each, i, grouped)));
  place.querySelector("dl").replaceChildren(...figures(column, other));
  place.querySelector(".setting").textContent = setting(column);
  place.querySelector(".empty").hidden = column.hypotheses.length > 0;
}

/** What follows the strategy's name in the title, and what is not in the list. */
function setting(column) {
  const [, rest = ""] = column.title.split(/: (.*)/s);
  const more = column.repeats ? `${column.repeats} more read the same` : "";
  return [rest, more].filter(Boolean).join("; ");
}

function row(found, place, grouped) {
  const said = make("span", "said", ...marked(found), ...(found.finished ? [] : [make("span", "cut", " …")]));
  if (found.alone) said.append(star());
  const worth = make("span", "worth", found.log_prob === null ? "" : number(found.log_prob));
  worth.title = "log-probability";
  const parts = [make("span", "rank", String(place + 1)), said, worth];
  return make("li", "", ...parts, ...(grouped ? [chip(found.group)] : []));
}

/** With a minus as wide as a digit. */
function number(value) {
  return value.toFixed(2).replace("-", "−");
}

function marked({ text, tokens, differs }) {
  const whole = text ?? tokens.join(" ");
  const letters = [...whole]; // the server counts letters, and JavaScript halves of them
  const parts = [];
  let done = 0;
  for (const [begin, end] of differs) {
    parts.push(letters.slice(done, begin).join(""), make("mark", "", letters.slice(begin, end).join("")));
    done = end;
  }
  return [...parts, letters.slice(done).join("")];
}

function star() {
  const sign = make("span", "", "✦");
  sign.setAttribute("aria-hidden", "true");
  const made = make("span", "star", sign, make("span", "hidden", " (in this list alone)"));
  made.title = "in this list alone";
  return made;
}

function chip(group) {
  const made = make("span", `group colour-${(group % COLOURS) + 1}`, make("span", "hidden", "group "), String(group + 1));
  made.title = `group ${group + 1}`;
  return made;
}

function figures(column, other) {
  return Object.entries(column.distinct).map(([n, value]) => {
    const bar = make("meter");
    bar.value = value;
    bar.setAttribute("aria-hidden", "true");
    const more = other && value > (other.distinct[n] ?? 0) ? "more" : "";
    return make("div", "", make("dt", "", `distinct-${n}`), make("dd", more, value.toFixed(2), bar));
  });
}

/** The server's drawing: parsed as a picture, not as a part of the page. */
export function showTree(svg) {
  const drawn = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  if (drawn.localName !== "svg") return;
  document.getElementById("tree").replaceChildren(document.importNode(drawn, true));
  document.getElementById("search").hidden = false;
}

/** Say of both lists that they are not of what is chosen now, and of what they are. */
export function showEarlier(columns) {
  const places = document.querySelectorAll(".column .setting");
  columns.forEach((column, i) => (places[i].textContent = `Earlier search: ${column.title}`));
}

/** One sentence for those who listen. */
export function summary(columns) {
  const [left, right] = columns;
  const name = (column) => column.title.split(":")[0];
  const alone = (column) => column.hypotheses.filter((each) => each.alone).length;
  return (
    `${name(left)} found ${left.hypotheses.length} outputs and ${name(right)} ${right.hypotheses.length}, ` +
    `${alone(right)} of them in this list alone.`
  );
}

export function save(name, kind, content) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([content], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
