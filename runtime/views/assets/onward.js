// Continues a search that stopped without matches, page by page, and shows the progress. The first page with matches is opened.
// Without matches the last page replaces this one, so that the URL stays that of the whole search. The search stops when the page
// is hidden, on Escape, and when the link is used.

const notice = document.querySelector("[data-onward]");
const link = notice.querySelector("a");
const progress = notice.querySelector("span");
let n = Number(notice.dataset.onward);
let isOver = false;

async function part(href) {
  const answer = await fetch(href, { headers: { accept: "text/html" } }).catch(() => null);
  const html = answer?.ok && !answer.redirected ? await answer.text().catch(() => null) : null;
  return html === null ? null : new DOMParser().parseFromString(html, "text/html");
}

/** Shows the last page, which has no matches; false if its markup does not fit. */
function end(page) {
  const places = [".head > p", "#list > div"].map((place) => [document, page].map((one) => one.querySelector(place)));
  const empty = page.querySelector("#list .empty");
  if (!empty || places.flat().includes(null)) return false;
  for (const [here, there] of places) here.replaceWith(there);
  notice.remove();
  const text = empty.querySelector("h2").textContent;
  document.dispatchEvent(new CustomEvent("say", { detail: { text } }));
  return true;
}

async function onward() {
  let isCut = false;
  while (!isOver && !document.hidden) {
    progress.textContent = `${n.toLocaleString("en")} ${notice.dataset.rows} searched, none found so far. Searching…`;
    const page = await part(link.href);
    if (page === null) isCut = true;
    if (isCut || isOver) break;
    const next = page.querySelector("[data-onward]");
    if (next === null) {
      if (!end(page)) location.replace(link.href);
      return;
    }
    n += Number(next.dataset.onward);
    link.href = next.querySelector("a").href;
  }
  const why = isCut ? "The server did not respond" : "The search stopped";
  progress.textContent = `${why}: ${n.toLocaleString("en")} ${notice.dataset.rows} searched, none found so far.`;
}

link.addEventListener("click", () => { isOver = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") isOver = true;
});
onward();
