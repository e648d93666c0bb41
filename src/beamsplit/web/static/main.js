// The page: turns choices into requests, and shows the results.

import { catalogue, search } from "./api.js";
import { PictureInput } from "./picture.js";
import { Player } from "./player.js";
import { defaults, fromHash, hasGroups, hasPrice, request, toHash } from "./state.js";
import { make, save, showColumns, showEarlier, showTree, summary } from "./view.js";

const at = (id) => document.getElementById(id);

const LABELS = { translate: "English text", continue: "How it begins" };
const NAMES = { translate: "Translate", caption: "Caption", ask: "Ask" };
const INPUTS = { groups: "groups", beams: "beams", strength: "strength", price: "price", length: "length", seed: "seed", temperature: "temperature" };
const SLIDERS = { slider: "strength", "price-slider": "price" };
const PAYS = {
  branching: "In late branching, outputs pay for pairs of words that the list has already.",
  chunks: "In chunk-wise search, each sentence pays for its likeness of meaning to what outputs before it say.",
};
const SOON = 250; // milliseconds to wait for another change
const LATER = 700; // the same while someone types
const PATIENCE = 30_000; // milliseconds to wait for a free slot
const GONE = "the server does not answer: is it still running?";

let offered; // models, strategies, terms, pictures and limits of the server
let state;
let picture;
let running = null; // { control, player }
let latest = null; // { asked, found } of the last search that finished
let shown = null; // { columns, tree } of a step or of the result
let timer = 0;

const model = () => offered.models.find((each) => each.name === state.model);
const strategy = (name) => offered.strategies.find((each) => each.name === name);

// Choices

function begin(hash) {
  const given = fromHash(hash, fits);
  note("");
  const named = (name) => offered.models.find((each) => each.name === name);
  const chosen = named(given.model ?? offered.default);
  const usual = defaults(chosen ?? named(offered.default), offered.strategies);
  state = { ...usual, ...given };
  if (!chosen) {
    state.model = offered.default;
    note(`There is no model ${given.model} here: this is ${state.model}.`);
  }
  for (const side of ["left", "right"]) if (!strategy(state[side])) state[side] = usual[side];
  if (model().takes === "picture" && given.sample === undefined) state.sample = offered.pictures[0]?.name ?? "";
  if (model().takes === "picture" && given.sample === "") note("The link was made with someone's own picture, which it does not contain: choose one.");
  show();
}

/** Return whether a control accepts a number. */
function fits(key, value) {
  const { min, max, step } = at(INPUTS[key]);
  return value >= Number(min) && value <= Number(max) && (step === "any" || Number.isInteger(value));
}

function switchTo(name) {
  const next = offered.models.find((each) => each.name === name);
  const { left, right } = state;
  const sample = state.sample || (picture.data ? "" : offered.pictures[0]?.name ?? "");
  state = { ...defaults(next, offered.strategies), left, right, sample };
  note("");
  show();
  soon(0);
}

/** Set the controls to the state. */
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
  at("unique").checked = state.unique;
  showOutputs();
  Object.keys(SLIDERS).forEach(showSlider);
  offer(at("term"), offered.terms, state.term);
  at("left").value = state.left;
  at("right").value = state.right;
  showUse();
}

function showOutputs() {
  at("outputs").value = state.groups * state.beams;
}

/** Set a slider to its strength, which may lie beyond its end. */
function showSlider(id) {
  const [slider, strength] = [at(id), at(SLIDERS[id]).valueAsNumber];
  slider.value = strength;
  slider.title = strength > Number(slider.max) ? `${strength} is beyond the slider's end` : "";
}

/** Show the controls that one of the strategies uses. */
function showUse() {
  const both = [strategy(state.left), strategy(state.right)];
  const uses = (what) => both.some((each) => each.uses.includes(what));
  const [hasTerm, priced] = [uses("diversity"), both.filter(hasPrice)];
  for (const id of ["groups", "beams"]) reach(id, uses("groups"));
  reach("outputs", !uses("groups"));
  reach("strength", hasTerm);
  reach("term", hasTerm);
  reach("price", priced.length > 0);
  at("slider").disabled = !hasTerm;
  at("price-slider").disabled = !priced.length;
  at("price-label").textContent = hasTerm ? `Strength of ${priced[0]?.title}` : "Strength of diversity";
  const paid = [...new Set(priced.map((each) => PAYS[each.name]))];
  at("pays").textContent = [hasTerm ? pays() : "", ...paid].filter(Boolean).join(" ");
  at("pays").hidden = !at("pays").textContent;
  reach("seed", both.some((each) => each.samples));
  reach("temperature", both.some((each) => each.settings.includes("temperature")));
  reach("unique", both.some(hasGroups));
}

/** Show or hide a control. What is hidden is disabled, so that it is not validated. */
function reach(id, isUsed) {
  at(`of-${id}`).hidden = !isUsed;
  at(id).disabled = !isUsed;
}

function pays() {
  const term = offered.terms.find((each) => each.name === state.term);
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
  const given = picture.forRequest(state.sample);
  if (model().takes === "picture" && !given) return fail("choose a picture first: a sample, or one of your own");
  const wrong = invalid();
  if (wrong) return fail(wrong);
  const asked = request(state, model(), offered.strategies, given);
  if (state.text.length <= offered.limits.text_letters) history.replaceState(null, "", toHash(state, model().takes));
  const control = new AbortController();
  const player = new Player(showStep);
  running = { control, player };
  fail("");
  busy(true);
  try {
    const found = await retrying(() => search(asked, control.signal, (step) => player.add(step)), control.signal);
    await player.end();
    if (running?.control === control) finish(asked, found);
  } catch (error) {
    if (running?.control === control) fail(error instanceof TypeError ? GONE : error.message);
  } finally {
    if (running?.control === control) stop();
  }
}

/** When all slots are taken, try again after the time that the server says, at random so as not to collide. */
async function retrying(ask, signal) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!error.retryAfter || Date.now() > end) throw error;
      at("progress").textContent = "Waiting for a free slot …";
      await new Promise((resolve) => setTimeout(resolve, error.retryAfter * (500 + 1000 * Math.random())));
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
  busy(false);
}

function busy(isBusy) {
  at("columns").setAttribute("aria-busy", String(isBusy));
  const tree = at("tree");
  tree.style.minHeight = isBusy ? `${tree.offsetHeight}px` : "";
  if (isBusy) at("progress").textContent = "Searching …";
  const line = isBusy ? "Searching. A model takes a while to load when it is first used." : "Nothing yet";
  for (const empty of document.querySelectorAll(".empty")) empty.textContent = line;
  offerJson();
}

/** Enable copying and saving when the result of the current choices is shown. */
function offerJson() {
  const ready = latest && !running && !document.body.classList.contains("stale");
  for (const id of ["copy-json", "save-json"]) at(id).disabled = !ready;
}

function showFound({ columns, tree }, done) {
  shown = { columns, tree };
  at("save-svg").disabled = false;
  showColumns(columns, [state.left, state.right].map(strategy), done);
  showTree(tree);
}

function showStep(step) {
  showFound(step, false);
  at("progress").textContent = `Step ${step.number + 1}`;
}

function finish(asked, found) {
  showFound(found, true);
  at("progress").textContent = "";
  at("status").textContent = summary(found.columns);
  latest = { asked, found };
}

/** Show an error that has nothing to do with the results shown. */
function complain(line) {
  at("error").textContent = line;
  at("error").hidden = !line;
}

/** Show why there is no result for the current choices, and mark the results shown as earlier ones. */
function fail(line) {
  complain(line);
  document.body.classList.toggle("stale", Boolean(line));
  if (line) at("progress").textContent = "";
  if (line && shown) showEarlier(shown.columns);
  offerJson();
}

/** Show a notice that is not an error. */
function note(line) {
  at("notice").textContent = line;
  at("notice").hidden = !line;
}

/** Return what is wrong with the choices, as far as the page knows without asking the server. */
function invalid() {
  const wrong = at("form").querySelector(":invalid:not(fieldset)");
  if (wrong) return `${wrong.labels?.[0]?.textContent ?? wrong.id}: ${wrong.validationMessage}`;
  const [beams, most] = [2 * state.groups * state.beams, offered.limits.beams];
  return beams > most ? `the searches have ${beams} beams, and the limit is ${most}: ask for fewer` : "";
}

// Copying and saving

function asJson() {
  const { tree, ...answer } = latest.found;
  const asked = latest.asked.picture?.data ? { ...latest.asked, picture: { data: "(left out)" } } : latest.asked;
  return JSON.stringify({ request: { ...asked, tree: false }, answer }, null, 1);
}

function copyLink() {
  const own = model().takes === "picture" && !state.sample;
  copy(at("copy-link"), location.origin + location.pathname + toHash(state, model().takes), own ? "Copied, without your picture" : "Copied");
}

async function copy(button, text, done = "Copied") {
  const name = button.dataset.name ?? button.textContent;
  button.dataset.name = name; // so that a second click does not take "Copied" for the name
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = done;
    setTimeout(() => (button.textContent = name), 2500);
  } catch {
    complain("the browser does not let this page copy: take the address from above, or download");
  }
}

// Start

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
  for (const [slider, id] of Object.entries(SLIDERS)) {
    at(slider).addEventListener("input", () => {
      at(id).value = at(slider).value;
      showSlider(slider);
      change(id, id);
    });
    at(id).addEventListener("input", () => showSlider(slider));
  }
  at("outputs").addEventListener("input", changeOutputs);
  at("unique").addEventListener("change", () => ((state.unique = at("unique").checked), soon()));
  for (const id of ["term", "left", "right"]) {
    at(id).addEventListener("change", () => {
      state[id] = at(id).value;
      takeOwnStrength(strategy(state[id]));
      showUse();
      soon();
    });
  }
  at("copy-link").addEventListener("click", copyLink);
  at("copy-json").addEventListener("click", () => copy(at("copy-json"), asJson()));
  at("save-json").addEventListener("click", () => save("beamsplit.json", "application/json", asJson()));
  at("save-svg").addEventListener("click", () => save("beamsplit.svg", "image/svg+xml", shown.tree));
  at("skip").addEventListener("click", skip);
  window.addEventListener("hashchange", () => {
    if (Object.keys(fromHash(location.hash, fits)).length) begin(location.hash), run();
  });
}

/** Begin with the strength that a strategy has by default, if it has one of its own. */
function takeOwnStrength(chosen) {
  if (!chosen || !hasPrice(chosen)) return;
  state.price = at("price").value = chosen.strength;
  showSlider("price-slider");
}

/** Move the focus without changing the address, whose # holds the choices. */
function skip(event) {
  event.preventDefault();
  at("results").focus();
}

function change(key, id) {
  if (at(id).validity.valid) state[key] = at(id).valueAsNumber;
  showOutputs();
  soon();
}

/** Put each output into a group of its own, should a strategy with groups be chosen later. */
function changeOutputs() {
  if (at("outputs").validity.valid) {
    [state.groups, state.beams] = [at("outputs").valueAsNumber, 1];
    for (const id of ["groups", "beams"]) at(id).value = state[id];
  }
  soon();
}

function choosePicture(sample) {
  state.sample = sample;
  note("");
  soon(0);
}

async function main() {
  try {
    offered = await catalogue();
  } catch (error) {
    for (const each of document.querySelectorAll("#form :is(input, select, textarea, button), #copy-link")) each.disabled = true;
    return fail(error instanceof TypeError ? `${GONE} Start it, then load this page again.` : error.message);
  }
  picture = new PictureInput(offered.pictures, offered.limits, choosePicture, complain);
  at("tasks").replaceChildren(...offered.models.map(task));
  for (const side of ["left", "right"]) offer(at(side), offered.strategies, "bs");
  at("length").max = offered.limits.max_length;
  for (const id of ["outputs", "groups", "beams"]) at(id).max = offered.limits.beams / 2;
  begin(location.hash);
  listen();
  if (model().takes === "text" || picture.forRequest(state.sample)) run();
}

main();
