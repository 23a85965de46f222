// Polls for new traces and shows their number in a bar. The rows do not move until the reader follows its link. The first answer
// names the instant from which on what arrives is new, whenever it began.

const bar = document.getElementById("news");
const EVERY = 10_000;
const AT_MOST = 300_000;

let pause = EVERY;
let next = 0;
let isOver = false;
let received = "";
let told = "";

async function ask() {
  const answer = await fetch(bar.dataset.from + received, { headers: { accept: "text/html" } }).catch(() => null);
  // The session has ended or the page is gone: polling stops, and the next link shows why.
  if (answer && (answer.redirected || (answer.status >= 400 && answer.status < 500 && answer.status !== 429))) {
    isOver = true;
    return;
  }
  const html = answer?.ok ? await answer.text().catch(() => null) : null;
  const now = answer?.headers.get("perpend-now");
  const isFirst = received === "";
  if (now && isFirst) received = `&received=${encodeURIComponent(now)}`;
  pause = html === null ? Math.min(2 * pause, AT_MOST) : EVERY;
  // Nothing moves while the page is being opened, and an answer with the same words is not read out again.
  if (html !== null && !isFirst && html !== told) bar.innerHTML = told = html;
  plan();
}

function plan() {
  clearTimeout(next);
  if (!document.hidden && isLive() && !isOver) next = setTimeout(ask, pause);
}

document.addEventListener("visibilitychange", plan);
document.addEventListener("live", plan);
bar.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link?.href !== location.href) return;
  // A browser need not open the address again that it is at.
  event.preventDefault();
  location.reload();
});
if (!document.hidden && isLive()) ask();
else plan();
