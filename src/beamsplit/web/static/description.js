// The interface's own description, for people.

import { make } from "./view.js";

const at = (id) => document.getElementById(id);
const code = (text) => make("code", "", text);

let schemas;

/** What a reference leads to. */
const schemaOf = (part) => (part?.$ref ? schemas[part.$ref.split("/").pop()] : part);

/** What may stand in a place, in a few words. */
function kind(part) {
  if (part.$ref) return part.$ref.split("/").pop();
  if (part.anyOf) return part.anyOf.map(kind).join(" or ");
  if (part.type === "array") return part.items ? `list of ${kind(part.items)}` : "list";
  if (part.const !== undefined) return JSON.stringify(part.const);
  if (part.enum) return part.enum.map((each) => JSON.stringify(each)).join(" or ");
  return part.type ?? "anything";
}

function table(rows) {
  return make("table", "", make("tbody", "", ...rows.map((cells) => make("tr", "", ...cells))));
}

/** The fields of an object, and below it of those that it is made of. */
function fields(part, seen = new Set()) {
  const schema = schemaOf(part);
  if (!schema?.properties || seen.has(schema.title)) return [];
  seen.add(schema.title);
  const rows = Object.entries(schema.properties).map(([name, each]) => [
    make("th", "", code(name)),
    make("td", "", kind(each)),
    make("td", "", each.description ?? ""),
  ]);
  const inner = Object.values(schema.properties).flatMap(parts).flatMap((each) => fields(each, seen));
  return [make("h4", "", schema.title), table(rows), ...inner];
}

function parts(part) {
  if (part.$ref) return [part];
  return [...(part.anyOf ?? []), part.items].filter(Boolean).flatMap(parts);
}

function body(content) {
  return Object.values(content ?? {}).flatMap(({ schema }) => (schema ? fields(schema) : []));
}

function told(status, { description, content }) {
  const kinds = Object.keys(content ?? {}).join(", ");
  return status === "200" ? `${kinds}: ${description}` : description;
}

function operation(path, method, { description, summary, requestBody, responses }) {
  const answers = Object.entries(responses).map(([status, each]) => [
    make("th", "", code(status)),
    make("td", "", make("pre", "", told(status, each))),
  ]);
  return make(
    "article",
    "card",
    make("h3", "", make("span", "method", method.toUpperCase()), code(path)),
    make("p", "", description ?? summary),
    ...(requestBody ? body(requestBody.content) : []),
    make("h4", "", "Answers"),
    table(answers),
    ...body(responses["200"]?.content),
  );
}

async function main() {
  const answer = await fetch("/api/openapi.json");
  const { info, paths, components } = await answer.json();
  schemas = components.schemas;
  at("about").textContent = info.description.replaceAll("`", "");
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, each]) => operation(path, method, each)),
  );
  at("paths").replaceChildren(...all);
}

main().catch((error) => {
  at("error").textContent = error.message;
  at("error").hidden = false;
});
