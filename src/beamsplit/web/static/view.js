// Shows results on the page. Words are only ever inserted as text, never as markup.

import { hasGroups } from "./state.js";

const COLOURS = 6;

/** Make an element with a class and content. */
export function make(name, kind = "", ...content) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...content);
  return made;
}

/** Show both lists, found by these strategies; `done` says whether the search has ended. */
export function showColumns(found, strategies, done) {
  const elements = document.querySelectorAll(".column");
  found.forEach((column, i) => showColumn(elements[i], column, found[1 - i], strategies[i], done));
}

function showColumn(element, column, other, strategy, done) {
  element.querySelector("ol").replaceChildren(...column.hypotheses.map((each, i) => row(each, i, strategy)));
  element.querySelector("dl").replaceChildren(...figures(column, other));
  element.querySelector(".setting").textContent = setting(column, strategy, done);
  element.querySelector(".empty").hidden = column.hypotheses.length > 0;
}

/** Return the settings from the title, the order if it is not plain, by how much a finished list falls short, and how
 * many outputs are left out. */
function setting(column, strategy, done) {
  const [, rest = ""] = column.title.split(/: (.*)/s);
  const short = done && isShort(column) ? `${count(column)} of the ${column.asked} asked for` : "";
  const more = column.repeats ? `${column.repeats} more read the same` : "";
  const order = strategy.order === "choice" ? "in order of choice" : "";
  return [rest, order, short, more].filter(Boolean).join("; ");
}

function isShort(column) {
  return column.asked !== null && column.hypotheses.length < column.asked;
}

function count(column) {
  const { length } = column.hypotheses;
  return length === 1 ? "1 different output" : `${length} different outputs`;
}

function row(found, index, strategy) {
  const said = make("span", "said", ...marked(found), ...(found.finished ? [] : [make("span", "cut", " …")]));
  if (found.alone) said.append(star());
  const worth = make("span", "worth", found.log_prob === null ? "" : number(found.log_prob));
  worth.title = "log-probability";
  const rank = make("span", strategy.order === "choice" ? `rank ${colour(found.group)}` : "rank", String(index + 1));
  return make("li", "", rank, said, worth, ...(hasGroups(strategy) ? [chip(found.group)] : []));
}

/** Format a number, with a minus sign as wide as a digit. */
function number(value) {
  return value.toFixed(2).replace("-", "−");
}

function marked({ text, tokens, differs }) {
  const whole = text ?? tokens.join(" ");
  if (!whole.trim()) return [make("span", "cut", whole ? "(blank)" : "(empty)")];
  const letters = [...whole]; // the server counts characters, JavaScript counts UTF-16 units
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

/** Return the class of a group's colour, the same as in the tree. */
function colour(group) {
  return `colour-${(group % COLOURS) + 1}`;
}

function chip(group) {
  const made = make("span", `group ${colour(group)}`, make("span", "hidden", "group "), String(group));
  made.title = `group ${group}`;
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

/** Show the server's drawing, parsed as a picture and not as part of the page. */
export function showTree(svg) {
  const drawn = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  if (drawn.localName !== "svg") return;
  document.getElementById("tree").replaceChildren(document.importNode(drawn, true));
  document.getElementById("search").hidden = false;
}

/** Say above both lists that they belong to an earlier search, and to which. */
export function showEarlier(columns) {
  const elements = document.querySelectorAll(".column .setting");
  columns.forEach((column, i) => (elements[i].textContent = `Earlier search: ${column.title}`));
}

/** Summarise the result in one sentence, for screen readers. */
export function summary(columns) {
  const [left, right] = columns;
  const name = (column) => column.title.split(":")[0];
  const alone = (column) => column.hypotheses.filter((each) => each.alone).length;
  const asked = (column) => (isShort(column) ? ` of the ${column.asked} asked for` : "");
  return (
    `${name(left)} found ${left.hypotheses.length} outputs${asked(left)} and ` +
    `${name(right)} ${right.hypotheses.length}${asked(right)}, ` +
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
