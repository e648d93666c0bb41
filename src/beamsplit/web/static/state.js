// What the user has chosen, and its form in the address after #, which browsers do not send to servers.

const NUMBERS = ["groups", "beams", "strength", "price", "length", "seed", "temperature"];
const FLAGS = ["unique"];
const WORDS = ["model", "text", "sample", "term", "left", "right"];

/** Return whether a strategy's groups mean anything: in order of choice, they are places in the list. */
export function hasGroups(strategy) {
  return strategy.groups && strategy.order !== "choice";
}

/** Return whether a strategy has a strength of its own, `price`, that is not on the scale of diversity terms. */
export function hasPrice(strategy) {
  return strategy.strength !== null;
}

/** Return the default choices for a model. */
export function defaults(model, strategies) {
  const choice = model.choice;
  return {
    model: model.name,
    text: model.examples[0] ?? "",
    sample: "",
    groups: choice.groups,
    beams: choice.beams_per_group,
    strength: choice.strength,
    term: choice.diversity,
    left: "bs",
    right: choice.strategy,
    price: strategies.find(hasPrice)?.strength ?? 1,
    length: model.max_length,
    seed: 0,
    temperature: 1,
    unique: false,
  };
}

export function toHash(state, takes) {
  const shown = [...WORDS, ...NUMBERS].filter((key) => key !== (takes === "text" ? "sample" : "text"));
  const on = FLAGS.filter((key) => state[key]);
  return `#${new URLSearchParams([...shown, ...on].map((key) => [key, String(state[key])]))}`;
}

/** Return the choices in an address. Numbers that `fits` refuses are left out. */
export function fromHash(hash, fits) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const found = {};
  for (const key of WORDS) if (given.has(key)) found[key] = given.get(key);
  for (const key of NUMBERS) {
    const value = Number(given.get(key));
    if (given.get(key) && fits(key, value)) found[key] = value;
  }
  for (const key of FLAGS) if (given.has(key)) found[key] = given.get(key) === "true";
  return found;
}

/** Return the request for a state. */
export function request(state, model, strategies, picture) {
  const given = model.takes === "text" ? { text: state.text } : { picture };
  return {
    model: state.model,
    ...given,
    searches: [state.left, state.right].map((name) => searchRequest(name, state, strategies)),
    max_length: state.length,
    seed: state.seed,
    tree: true,
  };
}

function searchRequest(name, state, strategies) {
  const known = strategies.find((each) => each.name === name);
  const hasTemperature = known?.settings.includes("temperature") && state.temperature !== 1;
  return {
    strategy: name,
    groups: state.groups,
    beams_per_group: state.beams,
    strength: known && hasPrice(known) ? state.price : state.strength,
    diversity: state.term,
    settings: hasTemperature ? { temperature: state.temperature } : {},
    unique: Boolean(known && hasGroups(known)) && state.unique,
  };
}
