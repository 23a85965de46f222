// Polls for new traces and shows their number in a bar. Rows do not move until the link is used. Items are new if they arrive
// after the time of the first response.

const bar = document.getElementById("news");
const EVERY = 10_000;
const AT_MOST = 300_000;

let pause = EVERY;
let next = 0;
let isOver = false;
let received = "";
let shown = "";

async function poll() {
  const answer = await fetch(bar.dataset.from + received, { headers: { accept: "text/html" } }).catch(() => null);
  // The session expired or the page was deleted: polling stops, and the next link shows the error.
  if (answer && (answer.redirected || (answer.status >= 400 && answer.status < 500 && answer.status !== 429))) {
    isOver = true;
    return;
  }
  const html = answer?.ok ? await answer.text().catch(() => null) : null;
  const now = answer?.headers.get("perpend-now");
  const isFirst = received === "";
  if (now && isFirst) received = `&received=${encodeURIComponent(now)}`;
  pause = html === null ? Math.min(2 * pause, AT_MOST) : EVERY;
  // The first response changes nothing, and an unchanged response is not announced again.
  if (html !== null && !isFirst && html !== shown) bar.innerHTML = shown = html;
  plan();
}

function plan() {
  clearTimeout(next);
  if (!document.hidden && isLive() && !isOver) next = setTimeout(poll, pause);
}

document.addEventListener("visibilitychange", plan);
document.addEventListener("live", plan);
bar.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link?.href !== location.href) return;
  // A link to the current URL may not reload the page.
  event.preventDefault();
  location.reload();
});
if (!document.hidden && isLive()) poll();
else plan();
