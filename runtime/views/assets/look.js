// Display options: collapsed sidebar, times in UTC, automatic updates, calendar for times. Without this script the sidebar is
// collapsed by a form, and times are typed.
"use strict";

const root = document.documentElement;
const hint = (text) => document.dispatchEvent(new CustomEvent("say", { detail: { text } }));

// Sections

const rail = document.getElementById("fold-rail");

/** The choice is stored in a cookie of the server, for the next page. */
async function foldRail() {
  const isFolded = root.dataset.rail === "letters";
  const body = new URLSearchParams(new FormData(rail));
  if (isFolded) delete root.dataset.rail;
  else root.dataset.rail = "letters";
  rail.elements.rail.value = isFolded ? "letters" : "names";
  const button = rail.querySelector("button");
  button.textContent = isFolded ? "Collapse" : "»";
  button.setAttribute("aria-label", `${isFolded ? "Collapse" : "Expand"} the sidebar`);
  // A redirect confirms the choice.
  const answer = await fetch(rail.action, { method: "POST", body, redirect: "manual" }).catch(() => null);
  if (answer?.type === "opaqueredirect") rail.dataset.kept = body.get("rail");
  else hint("Not saved: the server did not respond");
}

// In a narrow window the sections are one scrolling line.
document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

rail?.addEventListener("submit", (event) => {
  event.preventDefault();
  foldRail();
});

// Automatic updates

const live = document.getElementById("live");

function setLive(isOn) {
  root.dataset.live = isOn ? "on" : "off";
  live.setAttribute("aria-pressed", String(isOn));
}

function switchLive() {
  const isOn = root.dataset.live === "off";
  setLive(isOn);
  try {
    localStorage.setItem("live", isOn ? "on" : "off");
  } catch {
    // Storage is blocked: the next page starts with automatic updates on.
  }
  document.dispatchEvent(new Event("live"));
  hint(isOn ? "Automatic updates on" : "Automatic updates off");
}

try {
  setLive(localStorage.getItem("live") !== "off");
} catch {
  setLive(true);
}
live.addEventListener("click", switchLive);

/** Replaces the setup instructions with the first data. A list with scripts is reloaded instead. */
function showData(page) {
  const main = page.getElementById("main");
  const here = document.getElementById("main");
  // A script does not run twice.
  const ran = Array.from(document.scripts, (script) => script.getAttribute("src"));
  const hasScripts = Array.from(main?.querySelectorAll("script") ?? []).some((script) => ran.includes(script.getAttribute("src")));
  if (!main || hasScripts || document.title !== page.title || page.querySelector("[data-suggests]")) {
    location.reload();
    return;
  }
  const hadFocus = here.contains(document.activeElement);
  here.replaceWith(main);
  if (hadFocus) {
    main.tabIndex = -1;
    main.focus();
  }
  // Scripts of a parsed page do not run automatically.
  for (const read of main.querySelectorAll("script")) {
    const script = document.createElement("script");
    script.type = "module";
    script.src = read.getAttribute("src");
    read.replaceWith(script);
  }
  begin(main);
  hint("The first trace has arrived");
}

/** Polls the page until there is data. */
async function poll() {
  if (!document.hidden && isLive()) {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
    const html = answer?.ok ? await answer.text().catch(() => null) : null;
    const page = html === null ? null : pageOf(html);
    if (page && !page.querySelector("[data-wait]")) return showData(page);
    const [old, now] = [document, page].map((one) => one?.getElementById("waits"));
    if (old && now && old.textContent !== now.textContent) old.replaceChildren(...now.childNodes);
  }
  return setTimeout(poll, 1000);
}

if (document.querySelector("[data-wait]")) setTimeout(poll, 1000);

// Times

function swapTimes() {
  if (root.dataset.zone !== "browser") {
    hint("Times are in UTC. Change this in the preferences.");
    return;
  }
  const isUtc = root.dataset.times === "utc";
  root.dataset.times = isUtc ? "local" : "utc";
  for (const time of document.querySelectorAll("time[title]")) {
    [time.textContent, time.title] = [time.title, time.textContent];
  }
  // Also converts headings and times that were loaded meanwhile.
  if (isUtc) localTimes(document.body);
  else nameZone(document.body, "local", "UTC");
  hint(isUtc ? "Times in your time zone" : "Times in UTC");
}

// Calendar

function chooseTime(button) {
  const field = button.form.elements[button.dataset.calendar];
  const input = document.createElement("input");
  input.type = "datetime-local";
  input.className = "said";
  input.tabIndex = -1;
  input.addEventListener("change", () => {
    // Both use the time zone of the page.
    field.value = input.value.slice(0, 16).replace("T", " ");
    field.focus();
  });
  button.parentElement.querySelector("input[type=datetime-local]")?.remove();
  button.after(input);
  input.showPicker();
}

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-calendar]") : null;
  if (button) chooseTime(button);
});

// Projects

document.querySelector("[data-narrows]")?.addEventListener("input", (event) => {
  const text = event.target.value.trim().toLowerCase();
  for (const one of event.target.parentElement.querySelectorAll("li")) one.hidden = !one.textContent.toLowerCase().includes(text);
});

function onKey(event) {
  if (event.defaultPrevented || isTyping(event)) return;
  switch (event.key) {
    case "[":
      if (!rail) return;
      foldRail();
      break;
    case "l": switchLive(); break;
    case "T": swapTimes(); break;
    default: return;
  }
  event.preventDefault();
}

if (root.dataset.keys !== "off") addEventListener("keydown", onKey);
