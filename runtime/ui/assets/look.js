// How a page is looked at: the sections as pictures, times in UTC, whether it looks for what is new, a time out of a calendar.
// Without this script the first is a form, and times are typed.
"use strict";

const root = document.documentElement;
const hint = (text) => document.dispatchEvent(new CustomEvent("say", { detail: { text } }));

// Sections

const rail = document.getElementById("fold-rail");

/** The choice is kept by the server's cookie, so that the next page comes as this one is. */
async function foldRail() {
  const isFolded = root.dataset.rail === "letters";
  const body = new URLSearchParams(new FormData(rail));
  if (isFolded) delete root.dataset.rail;
  else root.dataset.rail = "letters";
  rail.elements.rail.value = isFolded ? "letters" : "names";
  const button = rail.querySelector("button");
  button.textContent = isFolded ? "Fold" : "»";
  button.setAttribute("aria-label", `${isFolded ? "Fold" : "Unfold"} the sections`);
  // An answer that leads on has been taken.
  const answer = await fetch(rail.action, { method: "POST", body, redirect: "manual" }).catch(() => null);
  if (answer?.type === "opaqueredirect") rail.dataset.kept = body.get("rail");
  else hint("Not kept for the next page: the server did not answer");
}

// In a narrow window the sections are a line that scrolls.
document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

rail?.addEventListener("submit", (event) => {
  event.preventDefault();
  foldRail();
});

// What is new

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
    // A browser that keeps nothing starts the next page with it on.
  }
  document.dispatchEvent(new Event("live"));
  hint(isOn ? "What is new is looked for by itself" : "Nothing is looked for until you ask");
}

try {
  setLive(localStorage.getItem("live") !== "off");
} catch {
  setLive(true);
}
live.addEventListener("click", switchLive);

// Times

function swapTimes() {
  if (root.dataset.zone !== "browser") {
    hint("Times are in UTC; in the preferences they can be those of this browser");
    return;
  }
  const isUtc = root.dataset.times === "utc";
  root.dataset.times = isUtc ? "local" : "utc";
  for (const time of document.querySelectorAll("time[title]")) {
    [time.textContent, time.title] = [time.title, time.textContent];
  }
  // Headings too, and times that came meanwhile.
  if (isUtc) localTimes(document.body);
  else nameZone(document.body, "local", "UTC");
  hint(isUtc ? "Times in your zone" : "Times in UTC");
}

// Calendar

function chooseTime(button) {
  const field = button.form.elements[button.dataset.calendar];
  const input = document.createElement("input");
  input.type = "datetime-local";
  input.className = "said";
  input.tabIndex = -1;
  input.addEventListener("change", () => {
    // What is typed is UTC; a calendar is in the zone of the times around it.
    const isLocal = root.dataset.zone === "browser" && root.dataset.times !== "utc";
    const at = isLocal && input.value ? new Date(input.value).toISOString() : input.value;
    field.value = at.slice(0, 16).replace("T", " ");
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
