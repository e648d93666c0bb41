// The page: what is chosen becomes a request, and what is found is shown.

import { catalogue, search } from "./api.js";
import { PictureInput } from "./picture.js";
import { Player } from "./player.js";
import { fromHash, request, suitable, toHash } from "./state.js";
import { make, save, showColumns, showTree, summary } from "./view.js";

const at = (id) => document.getElementById(id);

const LABELS = { translate: "English text", continue: "How it begins" };
const NAMES = { translate: "Translate", caption: "Caption", ask: "Ask" };
const INPUTS = { groups: "groups", beams: "beams", strength: "strength", length: "length", seed: "seed", temperature: "temperature" };
const SOON = 250; // milliseconds without another change
const LATER = 700; // the same, while someone types

let there; // what the server has
let state;
let picture;
let running = null; // { control, player }
let latest = null; // { asked, found }
let timer = 0;

const model = () => there.models.find((each) => each.name === state.model);
const strategy = (name) => there.strategies.find((each) => each.name === name);

// What is chosen

function begin(hash) {
  const given = fromHash(hash);
  const chosen = there.models.find((each) => each.name === (given.model ?? there.default));
  state = { ...suitable(chosen ?? there.models[0]), ...given };
  if (!chosen) {
    state.model = there.models[0].name;
    fail(`there is no model ${given.model} here: showing ${state.model}`);
  }
  for (const side of ["left", "right"]) if (!strategy(state[side])) state[side] = side === "left" ? "bs" : "dbs";
  if (model().takes === "picture" && given.sample === undefined) state.sample = there.pictures[0]?.name ?? "";
  show();
}

function switchTo(name) {
  const next = there.models.find((each) => each.name === name);
  const { left, right } = state;
  const sample = state.sample || (picture.data ? "" : there.pictures[0]?.name ?? "");
  state = { ...suitable(next), left, right, sample };
  show();
  soon(0);
}

/** The controls as the state has them. */
function show() {
  const { takes, task, examples } = model();
  for (const radio of document.querySelectorAll("#tasks input")) radio.checked = radio.value === state.model;
  at("of-text").hidden = takes !== "text";
  at("of-picture").hidden = takes !== "picture";
  at("text-label").textContent = LABELS[task] ?? "Text";
  at("text").value = state.text;
  at("examples").replaceChildren(...examples.map(example));
  if (takes === "picture" && !(picture.data && !state.sample)) picture.showSample(state.sample);
  for (const [key, id] of Object.entries(INPUTS)) at(id).value = state[key];
  at("slider").value = state.strength;
  offer(at("term"), there.terms, state.term);
  at("left").value = state.left;
  at("right").value = state.right;
  showUse();
}

/** Controls that neither strategy looks at are out of reach. */
function showUse() {
  const both = [strategy(state.left), strategy(state.right)];
  const uses = (what) => both.some((each) => each.uses.includes(what));
  for (const id of ["slider", "strength"]) at(id).disabled = !uses("strength");
  at("term").disabled = !uses("diversity");
  at("pays").hidden = !uses("diversity");
  at("pays").textContent = pays();
  at("of-seed").hidden = !both.some((each) => each.samples);
  at("of-temperature").hidden = !both.some((each) => each.settings.includes("temperature"));
}

function pays() {
  const term = there.terms.find((each) => each.name === state.term);
  return term ? `In all groups but the first, a word pays for ${term.pays}.` : "";
}

function offer(select, options, chosen) {
  const known = options.some((each) => each.name === chosen) ? options : [...options, { name: chosen, title: chosen }];
  select.replaceChildren(...known.map(({ name, title }) => new Option(title, name, false, name === chosen)));
}

function example(text) {
  const button = make("button", "", text);
  button.type = "button";
  button.addEventListener("click", () => {
    state.text = text;
    at("text").value = text;
    soon(0);
  });
  return button;
}

function task({ name, task, title }) {
  const radio = make("input");
  Object.assign(radio, { type: "radio", name: "task", value: name });
  radio.addEventListener("change", () => switchTo(name));
  const label = make("label", "", radio, make("span", "", NAMES[task] && ["en-fr", "captioner", "questioner"].includes(name) ? NAMES[task] : title));
  label.title = title;
  return label;
}

// Searching

function soon(wait = SOON) {
  clearTimeout(timer);
  timer = setTimeout(run, wait);
}

async function run() {
  clearTimeout(timer);
  stop();
  const given = picture.asked(state.sample);
  if (model().takes === "picture" && !given) return fail("choose a picture first: a sample, or one of your own");
  if (!at("form").checkValidity()) return fail(invalid());
  const asked = request(state, model(), there.strategies, given);
  history.replaceState(null, "", toHash(state, model().takes));
  const control = new AbortController();
  const player = new Player(showStep);
  running = { control, player };
  fail("");
  busy(true);
  try {
    const found = await patiently(() => search(asked, control.signal, (step) => player.add(step)), control.signal);
    await player.end();
    if (running?.control === control) finish(asked, found);
  } catch (error) {
    if (running?.control === control) fail(error instanceof TypeError ? "the server does not answer: is it still running?" : error.message);
  } finally {
    if (running?.control === control) busy(false);
  }
}

/** Where all places are taken, ask a few times more. */
async function patiently(ask, signal, times = 6) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (error.status !== 429 || times-- === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.min(error.again, 1) * 500));
      signal.throwIfAborted();
    }
  }
}

function stop() {
  if (!running) return;
  const { control, player } = running;
  running = null;
  control.abort();
  player.stop();
}

function busy(is) {
  at("columns").setAttribute("aria-busy", String(is));
  const tree = at("tree");
  tree.style.minHeight = is ? `${tree.offsetHeight}px` : "";
  if (is) at("progress").textContent = "Searching …";
  const told = is ? "Searching. A model takes a while when it is asked for the first time." : "Nothing yet";
  for (const empty of document.querySelectorAll(".empty")) empty.textContent = told;
}

function showFound({ columns, tree }) {
  showColumns(columns, [state.left, state.right].map((name) => strategy(name).groups));
  showTree(tree);
}

function showStep(step) {
  showFound(step);
  at("progress").textContent = `Step ${step.number + 1}`;
}

function finish(asked, found) {
  showFound(found);
  at("progress").textContent = "";
  at("status").textContent = summary(found.columns);
  latest = { asked, found };
  for (const id of ["copy-json", "save-json"]) at(id).disabled = false;
}

function fail(line) {
  at("error").textContent = line;
  at("error").hidden = !line;
  document.body.classList.toggle("stale", Boolean(line));
  if (line) at("progress").textContent = "";
}

function invalid() {
  const wrong = at("form").querySelector(":invalid:not(fieldset)");
  const name = wrong.labels?.[0]?.textContent ?? wrong.id;
  return `${name}: ${wrong.validationMessage}`;
}

// Taking along

function asJson() {
  const { tree, ...answer } = latest.found;
  const asked = latest.asked.picture?.data ? { ...latest.asked, picture: { data: "(left out)" } } : latest.asked;
  return JSON.stringify({ request: { ...asked, tree: false }, answer }, null, 1);
}

async function copy(button, text) {
  const name = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = name), 1500);
  } catch {
    fail("the browser does not let this page copy: take the address from above, or download");
  }
}

// Beginning

function listen() {
  at("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  at("text").addEventListener("input", () => ((state.text = at("text").value), soon(LATER)));
  for (const [key, id] of Object.entries(INPUTS)) at(id).addEventListener("input", () => change(key, id));
  at("slider").addEventListener("input", () => {
    at("strength").value = at("slider").value;
    change("strength", "strength");
  });
  at("strength").addEventListener("input", () => (at("slider").value = at("strength").value));
  for (const id of ["term", "left", "right"]) {
    at(id).addEventListener("change", () => {
      state[id] = at(id).value;
      showUse();
      soon();
    });
  }
  at("copy-link").addEventListener("click", () => copy(at("copy-link"), location.origin + location.pathname + toHash(state, model().takes)));
  at("copy-json").addEventListener("click", () => copy(at("copy-json"), asJson()));
  at("save-json").addEventListener("click", () => save("beamsplit.json", "application/json", asJson()));
  at("save-svg").addEventListener("click", () => save("beamsplit.svg", "image/svg+xml", latest.found.tree));
  window.addEventListener("hashchange", () => (begin(location.hash), run()));
}

function change(key, id) {
  if (at(id).validity.valid) state[key] = at(id).valueAsNumber;
  soon();
}

async function main() {
  try {
    there = await catalogue();
  } catch (error) {
    return fail(error.message);
  }
  picture = new PictureInput(there.pictures, there.limits, (sample) => ((state.sample = sample), soon(0)), fail);
  at("tasks").replaceChildren(...there.models.map(task));
  for (const side of ["left", "right"]) offer(at(side), there.strategies, side === "left" ? "bs" : "dbs");
  at("text").maxLength = there.limits.text_letters;
  at("length").max = there.limits.max_length;
  for (const id of ["groups", "beams"]) at(id).max = there.limits.beams / 2;
  begin(location.hash);
  listen();
  if (model().takes === "text" || picture.asked(state.sample)) run();
}

main();
