// The palette: a field over the page that finds ids, names and pages. Without this script the field in the bar leads
// to the same answer as a page. Markup comes from the server alone.

const dialog = document.getElementById("palette");
const field = dialog.querySelector("[role=combobox]");
const list = document.getElementById("hits");
const notes = document.getElementById("hits-notes");
const said = document.getElementById("hits-said");
// Milliseconds without a keystroke before the server is asked.
const PAUSE = 80;

let asking = null;
let waiting = 0;
// The hits are those of an older text: no key opens one of them.
let isStale = false;

// Of this browser: what can be done on this page, and what was looked at before.

const RECENT = 20;
const SHOWN = 8;
const base = dialog.dataset.from.replace(/_\/search$/, "");
const commands = new WeakMap();

/** What was looked at in this project, the last one first. */
function recent() {
  try {
    const all = JSON.parse(localStorage.getItem("recent") ?? "[]");
    return Array.isArray(all) ? all.filter((one) => typeof one?.href === "string" && one.href.startsWith(base)) : [];
  } catch {
    return [];
  }
}

function remember() {
  const rest = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : "";
  if (document.querySelector("main > .status")) return;
  // Neither a comparison nor a search: both are what their parameters say, which are not kept.
  if (!/^(traces|sessions|users|datasets)\/./.test(rest) || /^traces\/(compare|[^/]+\/find)$/.test(rest)) return;
  const title = document.title.split(" · ")[0];
  const own = { href: location.pathname, title };
  const all = [own, ...recent().filter((one) => one.href !== own.href)].slice(0, RECENT);
  try {
    localStorage.setItem("recent", JSON.stringify(all));
  } catch {
    // Without room, or where the browser keeps nothing, nothing is remembered.
  }
}

/** A group of options as the server would make it. */
function group(label, ones) {
  const [box, option] = document.getElementById("local-hits").content.children;
  const made = box.cloneNode(true);
  made.querySelector("p").textContent = label;
  made.setAttribute("aria-label", label);
  for (const [at, { title, href, run }] of ones.entries()) {
    const one = option.cloneNode(true);
    one.id = `local-${label.replaceAll(" ", "-")}-${at}`;
    one.querySelector("bdi").textContent = title;
    one.setAttribute("href", href ?? "#");
    if (run) commands.set(one, run);
    made.append(one);
  }
  return made;
}

const isCommand = () => field.value.trim().startsWith(">");

/** The groups that fit what was typed; none when it asks for something else. After `>` it is commands alone. */
function local() {
  const text = field.value.trim().toLowerCase().replace(/^>\s*/, "");
  if (/^[#?]/.test(text)) return [];
  const fits = ({ title }) => title.toLowerCase().includes(text);
  const onPage = Array.from(document.querySelectorAll("main [data-command]"), (element) => ({
    title: element.dataset.command || element.textContent.trim(),
    href: element.getAttribute("href"),
    run: element.matches("a") ? null : () => element.click(),
  })).filter(fits);
  const before = recent().filter((one) => one.href !== location.pathname && fits(one));
  const groups = isCommand() ? [["On this page", onPage]] : [["On this page", onPage.slice(0, SHOWN)], ["Recent", before]];
  return groups.filter(([, ones]) => ones.length > 0).map(([label, ones]) => group(label, ones));
}

const options = () => Array.from(list.querySelectorAll("[role=option]"));
const marked = () => list.querySelector("[aria-selected=true]");

const mark = (option) => markOption(field, list, option);

/** Markup of the server's answer to what was typed; of nothing for commands, which this page alone knows. */
async function answerTo(mine) {
  if (isCommand()) return "";
  const address = `${dialog.dataset.from}?q=${encodeURIComponent(field.value)}`;
  const answer = await fetch(address, { headers: { accept: "text/html" }, signal: mine.signal }).catch(() => null);
  // A session that has run out is the business of the page that Enter leads to.
  return answer?.ok && !answer.redirected ? await answer.text().catch(() => "") : "";
}

/** Shows what the field finds. An answer that a newer question has overtaken is dropped. */
async function ask() {
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const text = field.value;
  const html = await answerTo(mine);
  if (asking !== mine) return;
  list.dataset.of = text;
  isStale = false;
  const part = document.createElement("template");
  part.innerHTML = html;
  list.replaceChildren(...part.content.querySelectorAll("[role=group]"), ...local());
  notes.replaceChildren(...part.content.querySelectorAll("[data-notes] > *"));
  if (isCommand()) notes.textContent = `${options().length} found on this page`;
  const words = notes.querySelector("[data-said]")?.textContent ?? notes.textContent;
  // The same words again would not be read out.
  if (said.textContent !== words) said.textContent = words;
  field.setAttribute("aria-expanded", String(options().length > 0));
  mark(null);
}

function open(text) {
  if (dialog.open) return;
  dialog.showModal();
  if (text === undefined) field.select();
  else field.value = text;
  ask();
}

function step(by) {
  const all = isStale ? [] : options();
  if (all.length === 0) return;
  const at = all.indexOf(marked());
  // Behind the last and before the first the field alone is marked.
  const to = at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by;
  mark(all[to] ?? null);
}

field.addEventListener("input", () => {
  clearTimeout(waiting);
  // An answer to the older text would pass for one to this.
  asking?.abort();
  asking = null;
  isStale = true;
  mark(null);
  waiting = setTimeout(ask, PAUSE);
});

field.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  switch (event.key) {
    case "ArrowDown": step(1); break;
    case "ArrowUp": step(-1); break;
    case "Enter": take(); break;
    default: return;
  }
  event.preventDefault();
});

/** The only hit, or a page or command first among them whose name begins as the text does. */
function certain() {
  const [first, ...others] = options();
  const text = field.value.trim().toLowerCase().replace(/^>\s*/, "");
  if (!first || text === "" || first.id === "hit-contents") return null;
  const isPlace = /^(Pages|On this page)/.test(first.closest("[role=group]").querySelector("p").textContent);
  const begins = first.querySelector("bdi").textContent.toLowerCase().startsWith(text);
  return others.length === 0 || (isPlace && begins) ? first : null;
}

/** What Enter does. What is not certain is sent: the server leads to the one thing with this id. */
async function take() {
  const option = marked();
  if (option) return go(option);
  clearTimeout(waiting);
  if (isStale) await ask();
  // Meanwhile more was typed, or the palette was left.
  if (isStale || !dialog.open) return undefined;
  const only = certain();
  return only ? go(only) : field.form.requestSubmit();
}

function go(option) {
  const run = commands.get(option);
  dialog.close();
  if (run) run();
  else location.href = option.href;
}

dialog.addEventListener("click", (event) => {
  const option = event.target.closest("a");
  if (option && commands.has(option)) {
    event.preventDefault();
    go(option);
    return;
  }
  // Beside the palette, or on a link that may lead to a place on this very page.
  if (event.target === dialog || option) dialog.close();
});

dialog.addEventListener("close", () => {
  asking?.abort();
  asking = null;
  said.textContent = "";
  clearTimeout(waiting);
});

if (document.documentElement.dataset.keys !== "off") {
  addEventListener("keydown", (event) => {
    if (event.key !== "." || event.defaultPrevented || isTyping(event)) return;
    event.preventDefault();
    open("> ");
  });
}

addEventListener("keydown", (event) => {
  const isOurs = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
  if (!isOurs) return;
  event.preventDefault();
  if (dialog.open) dialog.close();
  else if (!document.querySelector("dialog[open]")) open();
});

remember();
