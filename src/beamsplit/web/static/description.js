// The interface's own description, for people.

import { make } from "./view.js";

const at = (id) => document.getElementById(id);
const code = (text) => make("code", "", text);

let schemas;
const told = new Set(); // what has been described further up

const nameOf = (part) => part.$ref?.split("/").pop();
const isNull = (part) => part.type === "null";

/** Text with `code` in it. */
function words(text = "") {
  return text.split(/`([^`]*)`/).map((each, i) => (i % 2 ? code(each) : each));
}

// Fields

/** What may stand in a place, in a few words. */
function kind(part) {
  if (part.$ref) return nameOf(part);
  if (part.anyOf) return part.anyOf.filter((each) => part.default !== null || !isNull(each)).map(kind).join(" or ");
  if (part.type === "array") return part.items ? `list of ${kind(part.items)}` : "list";
  if (part.const !== undefined) return JSON.stringify(part.const);
  if (part.enum) return part.enum.map((each) => JSON.stringify(each)).join(" or ");
  return part.type ?? "anything";
}

/** What else there is to know of it: whether it must be there, what it is without, how large it may be. */
function bounds(part, required, asked) {
  const inner = part.anyOf?.find((each) => !isNull(each)) ?? part;
  const [least, most] = [inner.minimum ?? inner.minItems, inner.maximum ?? inner.maxItems];
  const said = [];
  if (required) said.push("required");
  if (asked && part.default !== undefined && part.default !== null) said.push(`default ${JSON.stringify(part.default)}`);
  if (least !== undefined && most !== undefined) said.push(`${least} to ${most}`);
  else if (least !== undefined) said.push(`at least ${least}`);
  else if (most !== undefined) said.push(`at most ${most}`);
  if (inner.maxLength) said.push(`at most ${inner.maxLength} letters`);
  return said.join(", ");
}

function table(rows) {
  return make("table", "", make("tbody", "", ...rows.map((cells) => make("tr", "", ...cells))));
}

function field(name, part, required, asked) {
  const more = bounds(part, required, asked);
  const about = [...words(part.description), ...(more ? [make("span", "faint", ` ${more}`)] : [])];
  return [make("th", "", code(name)), make("td", "", kind(part)), make("td", "", ...about)];
}

/** The fields of an object, and below it of those that it is made of; once on the page. */
function fields(part, asked) {
  const name = nameOf(part);
  const schema = name ? schemas[name] : part;
  if (!schema?.properties || told.has(name)) return [];
  told.add(name);
  const needs = new Set(asked ? schema.required : []); // an answer has them all
  const rows = Object.entries(schema.properties).map(([key, each]) => field(key, each, needs.has(key), asked));
  const inner = Object.values(schema.properties).flatMap(parts).flatMap((each) => fields(each, asked));
  return [make("h4", "", name), table(rows), ...inner];
}

/** The objects in a part. */
function parts(part) {
  if (part.$ref) return [part];
  return [...(part.anyOf ?? []), part.items].filter(Boolean).flatMap(parts);
}

// Requests and answers

function requested(path, schema) {
  const known = told.has(nameOf(schema));
  const what = known ? [make("p", "", "The same as for ", code("/api/decode"), ".")] : fields(schema, true);
  return [make("h3", "", "Request"), example(path, schema), ...what];
}

function example(path, schema) {
  const text = schemas[nameOf(schema)].properties.text.examples[0];
  const flag = path.endsWith("search") ? "-N " : "";
  return make("pre", "", `curl ${flag}${location.origin}${path} -H 'content-type: application/json' \\\n  -d '${JSON.stringify({ text })}'`);
}

function answered({ description, content }) {
  const [[type, { schema } = {}] = []] = Object.entries(content ?? {});
  const events = schema?.oneOf?.map(({ properties }) => [properties.event.const, properties.data.contentSchema]);
  const listed = events ? [table(events.map(([name, part]) => [make("th", "", code(name)), make("td", "", kind(part))]))] : [];
  const inner = (events?.map(([, part]) => part) ?? (schema ? [schema] : [])).flatMap((part) => fields(part, false));
  const name = schema && nameOf(schema);
  return [
    make("h3", "", "Answer"),
    make("p", "", ...words(description), ". ", code(Object.keys(content ?? {}).join(", ") || type), name ? `: ${name}` : ""),
    ...listed,
    ...inner,
  ];
}

function failures(responses) {
  const rows = Object.entries(responses)
    .filter(([status]) => status !== "200")
    .map(([status, { description }]) => [make("th", "", code(status)), make("td", "", ...words(description))]);
  return make("details", "", make("summary", "", "When it goes wrong"), table(rows));
}

function operation(path, method, { description, summary, requestBody, responses }) {
  const schema = requestBody?.content["application/json"].schema;
  return make(
    "article",
    "card",
    make("h2", "", make("span", "method", method.toUpperCase()), code(path)),
    make("p", "", ...words(description ?? summary)),
    ...(schema ? requested(path, schema) : []),
    ...answered(responses["200"]),
    failures(responses),
  );
}

/** Those that search come first. */
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
