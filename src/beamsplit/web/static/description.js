// The description of the API, for people.

import { make } from "./view.js";

const at = (id) => document.getElementById(id);
const code = (text) => make("code", "", text);

let schemas;
const described = new Set(); // schemas that are described further up

const nameOf = (part) => part.$ref?.split("/").pop();
const isNull = (part) => part.type === "null";

/** Turn `code` in a text into elements. */
function words(text = "") {
  return text.split(/`([^`]*)`/).map((each, i) => (i % 2 ? code(each) : each));
}

// Fields

/** Describe the type of a field in a few words. */
function kind(part) {
  if (part.$ref) return nameOf(part);
  if (part.anyOf) return part.anyOf.filter((each) => part.default !== null || !isNull(each)).map(kind).join(" or ");
  if (part.type === "array") return part.items ? `list of ${kind(part.items)}` : "list";
  if (part.const !== undefined) return JSON.stringify(part.const);
  if (part.enum) return part.enum.map((each) => JSON.stringify(each)).join(" or ");
  return part.type ?? "anything";
}

/** Describe whether a field is required, its default and its bounds. */
function bounds(part, required, isRequest) {
  const inner = part.anyOf?.find((each) => !isNull(each)) ?? part;
  const [least, most] = [inner.minimum ?? inner.minItems, inner.maximum ?? inner.maxItems];
  const notes = [];
  if (required) notes.push("required");
  if (isRequest && part.default !== undefined && part.default !== null) notes.push(`default ${JSON.stringify(part.default)}`);
  if (least !== undefined && most !== undefined) notes.push(`${least} to ${most}`);
  else if (least !== undefined) notes.push(`at least ${least}`);
  else if (most !== undefined) notes.push(`at most ${most}`);
  if (inner.maxLength) notes.push(`at most ${inner.maxLength} characters`);
  return notes.join(", ");
}

function table(rows) {
  return make("table", "", make("tbody", "", ...rows.map((cells) => make("tr", "", ...cells))));
}

function field(name, part, required, isRequest) {
  const more = bounds(part, required, isRequest);
  const about = [...words(part.description), ...(more ? [make("span", "faint", ` ${more}`)] : [])];
  return [make("th", "", code(name)), make("td", "", kind(part)), make("td", "", ...about)];
}

/** Describe the fields of an object, then the objects in them; each object once on the page. */
function fields(part, isRequest) {
  const name = nameOf(part);
  const schema = name ? schemas[name] : part;
  if (!schema?.properties || described.has(name)) return [];
  described.add(name);
  const required = new Set(isRequest ? schema.required : []); // a response has them all
  const rows = Object.entries(schema.properties).map(([key, each]) => field(key, each, required.has(key), isRequest));
  const inner = Object.values(schema.properties).flatMap(parts).flatMap((each) => fields(each, isRequest));
  return [make("h4", "", name), table(rows), ...inner];
}

/** Return the objects that a part refers to. */
function parts(part) {
  if (part.$ref) return [part];
  return [...(part.anyOf ?? []), part.items].filter(Boolean).flatMap(parts);
}

// Requests and responses

function requestParts(path, schema) {
  const known = described.has(nameOf(schema));
  const what = known ? [make("p", "", "The same as for ", code("/api/decode"), ".")] : fields(schema, true);
  return [make("h3", "", "Request"), example(path, schema), ...what];
}

function example(path, schema) {
  const text = schemas[nameOf(schema)].properties.text.examples[0];
  const flag = path.endsWith("search") ? "-N " : "";
  return make("pre", "", `curl ${flag}${location.origin}${path} -H 'content-type: application/json' \\\n  -d '${JSON.stringify({ text })}'`);
}

function responseParts({ description, content }) {
  const [[type, { schema } = {}] = []] = Object.entries(content ?? {});
  const events = schema?.oneOf?.map(({ properties }) => [properties.event.const, properties.data.contentSchema]);
  const listed = events ? [table(events.map(([name, part]) => [make("th", "", code(name)), make("td", "", kind(part))]))] : [];
  const inner = (events?.map(([, part]) => part) ?? (schema ? [schema] : [])).flatMap((part) => fields(part, false));
  const name = schema && nameOf(schema);
  return [
    make("h3", "", "Response"),
    make("p", "", ...words(description), ". ", code(Object.keys(content ?? {}).join(", ") || type), name ? `: ${name}` : ""),
    ...listed,
    ...inner,
  ];
}

function errors(responses) {
  const rows = Object.entries(responses)
    .filter(([status]) => status !== "200")
    .map(([status, { description }]) => [make("th", "", code(status)), make("td", "", ...words(description))]);
  return make("details", "", make("summary", "", "Errors"), table(rows));
}

function operation(path, method, { description, summary, requestBody, responses }) {
  const schema = requestBody?.content["application/json"].schema;
  return make(
    "article",
    "card",
    make("h2", "", make("span", "method", method.toUpperCase()), code(path)),
    make("p", "", ...words(description ?? summary)),
    ...(schema ? requestParts(path, schema) : []),
    ...responseParts(responses["200"]),
    errors(responses),
  );
}

/** Put the searches first. */
const order = ([path]) => ["/api/decode", "/api/search", "/api/models"].indexOf(path) + 1 || 9;

async function main() {
  const answer = await fetch("/api/openapi.json");
  const { info, paths, components } = await answer.json();
  schemas = components.schemas;
  at("about").replaceChildren(...words(info.description));
  const sorted = Object.entries(paths).sort((a, b) => order(a) - order(b));
  const all = sorted.flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, each]) => operation(path, method, each)),
  );
  at("paths").replaceChildren(...all);
}

main().catch((error) => {
  at("error").textContent = error instanceof TypeError ? "the server does not answer: is it still running?" : error.message;
  at("error").hidden = false;
});
