// The minimal page without the console: sign-in, sources, tools and the HTTP reference.
// All content from the gateway is set as text, never as HTML.

const SHOWN_AT_ONCE = 50;

const find = (id) => document.getElementById(id);

/** A new element: `make("p", {class: "quiet"}, "text", child)`. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function show(element, visible = true) {
  element.hidden = !visible;
}

/** Sends a request; returns the parsed response, or throws an Error with the gateway's message and `status`. */
async function ask(path, options = {}) {
  const response = await fetch(path, {credentials: "same-origin", ...options});
  const text = await response.text();
  let body = null;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    body = null;
  }
  if (!response.ok && !(body && "sources" in body)) {
    const fault = new Error(body?.error?.message ?? `The gateway answered ${response.status}.`);
    fault.status = response.status;
    throw fault;
  }
  return body;
}

function post(path, body, headers = {}) {
  return ask(path, {
    method: "POST",
    headers: {"Content-Type": "application/json", ...headers},
    body: JSON.stringify(body),
  });
}

/** The link's one-time code, removed from the address so that it is not kept in the history. */
function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) history.replaceState(null, "", location.pathname);
  return code;
}

async function signInByLink() {
  const code = takeCode();
  if (!code) return;
  try {
    await post("/api/login", {code});
  } catch (fault) {
    find("sign-in-fault").textContent = fault.message;
  }
}

async function signInByKey(event) {
  event.preventDefault();
  const key = find("key").value.trim();
  try {
    await post("/api/login", {}, {"X-Api-Key": key});
    find("key").value = "";
    find("sign-in-fault").textContent = "";
    await refresh();
  } catch (fault) {
    find("sign-in-fault").textContent = fault.message;
  }
}

async function signOut() {
  await ask("/api/logout", {method: "POST"});
  location.reload();
}

// Sources

function sourceRow(source) {
  const row = make(
    "li",
    {},
    make("span", {class: `dot ${source.status}`}),
    make("strong", {}, source.name),
    make("span", {class: "quiet"}, ` ${source.kind} · ${source.status} · ${source.tools} ${plural(source.tools, "tool")}`),
  );
  if (source.error) row.append(make("p", {class: "fault"}, source.error));
  for (const fault of source.faults ?? []) row.append(make("p", {class: "fault"}, fault));
  return row;
}

function plural(count, noun) {
  return count === 1 ? noun : `${noun}s`;
}

async function showSources() {
  const state = await ask("/readyz");
  const up = state.sources.filter((source) => source.status === "up").length;
  const worthShowing = state.sources.filter((source) => source.tools || source.status !== "up" || source.faults?.length);
  find("sources").replaceChildren(
    ...(worthShowing.length ? worthShowing.map(sourceRow) : [make("li", {}, "No tools yet.")]),
  );
  find("notices").replaceChildren(...state.notices.map((notice) => make("li", {}, notice.message)));
  const ready = state.status === "ready" ? "ready" : "not ready";
  find("summary").textContent =
    `version ${state.version} · ${ready} · ${up} of ${state.sources.length} ${plural(state.sources.length, "source")} up`;
}

// Tools

function toolRow(tool) {
  const details = make(
    "details",
    {},
    make("summary", {}, make("strong", {}, tool.name), make("span", {class: "quiet"}, firstLine(tool.description))),
  );
  details.addEventListener("toggle", () => details.open && fillTool(details, tool), {once: true});
  return make("li", {}, details);
}

function firstLine(text) {
  return text.split("\n", 1)[0];
}

function fillTool(details, tool) {
  const area = make("textarea", {rows: "4", spellcheck: "false", "aria-label": `Arguments for ${tool.name}`});
  area.value = JSON.stringify(exampleArguments(tool), null, 2);
  const button = make("button", {type: "button"}, "Call tool");
  const output = make("pre", {"aria-live": "polite", hidden: ""});
  button.addEventListener("click", () => callTool(tool, area.value, button, output));
  details.append(
    make("p", {class: "quiet"}, `from ${tool.source} · version ${tool.version}`),
    make("p", {}, tool.description),
    area,
    button,
    output,
    make("details", {}, make("summary", {}, "Input schema"), make("pre", {}, JSON.stringify(tool.parameters, null, 2))),
  );
}

/** Initial arguments: the tool's first example, or a value of the right type for each required parameter. */
function exampleArguments(tool) {
  if (tool.metadata.examples?.length) return tool.metadata.examples[0].input;
  const samples = {string: "", number: 0, integer: 0, boolean: false, array: [], object: {}};
  const required = tool.parameters.required ?? [];
  return Object.fromEntries(
    required.map((name) => {
      const schema = tool.parameters.properties?.[name] ?? {};
      return [name, schema.default ?? schema.enum?.[0] ?? samples[schema.type] ?? null];
    }),
  );
}

async function callTool(tool, text, button, output) {
  show(output);
  let args;
  try {
    args = JSON.parse(text || "{}");
  } catch (fault) {
    output.textContent = `The arguments are not valid JSON: ${fault.message}`;
    return;
  }
  button.disabled = true;
  output.textContent = "…";
  try {
    const answer = await post(`/api/v1/tools/${encodeURIComponent(tool.name)}/execute`, {arguments: args});
    output.textContent = JSON.stringify(answer, null, 2);
  } catch (fault) {
    output.textContent = fault.message;
  } finally {
    button.disabled = false;
  }
}

function showTools(tools, total) {
  find("tools").replaceChildren(...tools.slice(0, SHOWN_AT_ONCE).map(toolRow));
  find("tools-more").textContent =
    tools.length === 0 ? "No tools match." : total > SHOWN_AT_ONCE ? `${total} tools in total; search to see more.` : "";
}

let searches = 0;

async function search(all) {
  const words = find("search").value.trim();
  const turn = ++searches;
  const tools = words ? (await ask(`/api/v1/tools/search?limit=${SHOWN_AT_ONCE}&q=${encodeURIComponent(words)}`)).tools : all;
  if (turn === searches) showTools(tools, words ? tools.length : all.length);
}

// Examples

function showTry(tool) {
  const name = tool?.name ?? "TOOL";
  const body = JSON.stringify({arguments: tool ? exampleArguments(tool) : {}});
  const lines = [
    ["List the tools", `curl -s -H "x-api-key: $KEY" ${location.origin}/api/v1/tools`],
    [
      "Call one",
      `curl -s -H "x-api-key: $KEY" -H "content-type: application/json" \\\n  -d '${body.replaceAll("'", "'\\''")}' ${location.origin}/api/v1/tools/${name}/execute`,
    ],
    ["On the command line", `jackfield tools\njackfield tools ${name}\njackfield call ${name} …`],
    ["Follow calls live", "jackfield tail"],
  ];
  find("try").replaceChildren(...lines.flatMap(([what, how]) => [make("h3", {}, what), make("pre", {}, how)]));
}

// The HTTP reference

function showReference(document) {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationEntry(method, path, operation)),
  );
  find("reference").replaceChildren(make("ul", {class: "rows"}, ...operations));
}

function operationEntry(method, path, operation) {
  const details = make(
    "details",
    {},
    make(
      "summary",
      {},
      make("span", {class: "method"}, method.toUpperCase()),
      make("code", {}, path),
      make("span", {class: "quiet"}, operation.summary),
    ),
  );
  if (operation.description) details.append(make("p", {class: "quiet"}, operation.description));
  const parameters = operation.parameters.map((parameter) => [
    `${parameter.name} (${parameter.in})`,
    parameter.description ?? describe(parameter.schema),
  ]);
  const body = operation.requestBody?.content["application/json"]?.schema;
  if (body) parameters.push(["body", describe(body)]);
  const answers = Object.entries(operation.responses).map(([status, answer]) => [status, answer.description]);
  details.append(table([...parameters, ...answers]));
  return make("li", {}, details);
}

function describe(schema) {
  return schema.$ref ? schema.$ref.split("/").at(-1) : [schema.type, schema.enum?.join(" | ")].filter(Boolean).join(": ");
}

function table(rows) {
  return make("table", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)))));
}

// Startup

async function refresh() {
  await showSources();
  let manifest;
  try {
    manifest = await ask("/api/v1/tools", {cache: "no-cache"});
  } catch (fault) {
    show(find("sign-in"), fault.status === 401 || fault.status === 403);
    if (fault.status !== 401) find("sign-in-fault").textContent = fault.message;
    showTry(null);
    return;
  }
  show(find("sign-in"), false);
  show(find("sign-out"));
  show(find("tools-section"));
  show(find("reference-section"));
  showTools(manifest.tools, manifest.tools.length);
  showTry(manifest.tools[0]);
  find("search").oninput = () => search(manifest.tools);
  showReference(await ask("/openapi.json"));
}

find("sign-in-form").addEventListener("submit", signInByKey);
find("sign-out").addEventListener("click", signOut);
addEventListener("hashchange", () => location.hash && open());

async function open() {
  await signInByLink();
  try {
    await refresh();
  } catch (fault) {
    find("summary").textContent = fault.message;
  }
}

await open();
