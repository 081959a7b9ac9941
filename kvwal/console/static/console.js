// What pages gain with JavaScript: times of the reader's zone, search while one types, keys, live parts, dark and light.
"use strict";

const THEME = "kvwal-theme";
const LIVE_MS = 800; // with the second for which the console keeps what it has read, a change shows within two
const TYPING_MS = 180;

function storedTheme() {
  try { return localStorage.getItem(THEME); } catch { return null; } // a browser may forbid it
}

function showTheme(theme) {
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

showTheme(storedTheme()); // before the first paint: this script stands in the head

function switchTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = dark ? "light" : "dark";
  showTheme(theme);
  try { localStorage.setItem(THEME, theme); } catch { /* it holds for this page */ }
}

const moments = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

function showTimes(root) {
  for (const each of root.querySelectorAll("time[datetime]:not([data-shown])")) {
    const when = new Date(each.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    each.title = `${each.textContent} · ${zoned.format(when)}`;
    const [day, clock] = moments.format(when).split(" ");
    each.replaceChildren(part(day), " ", part(clock));
    each.dataset.shown = "";
  }
  for (const each of root.querySelectorAll("[data-utc]")) { // texts of pictures and choices that begin with a time
    const when = new Date(each.textContent.slice(0, 17).replace(" ", "T"));
    if (Number.isNaN(when.getTime())) continue;
    each.textContent = moments.format(when).slice(0, 16) + each.textContent.slice(17);
    each.removeAttribute("data-utc");
  }
}

function part(text) {
  const span = document.createElement("span");
  span.textContent = text;
  return span;
}

// What a reader wants to see first of a box that scrolls: the chosen data set of a graph.
function showChosen(root) {
  for (const each of root.querySelectorAll(".graph [aria-current]")) {
    const box = each.closest(".scroll"), place = each.getBoundingClientRect(), room = box.getBoundingClientRect();
    box.scrollLeft += place.left - room.left - (room.width - place.width) / 2;
  }
}

let typed = 0; // searches that were begun

// Parts of a page: an element with an id and data-part is replaced by the one of the same id in a page that is fetched.
function replaceParts(text) {
  const page = new DOMParser().parseFromString(text, "text/html"); // its scripts never run
  for (const old of document.querySelectorAll("[data-part][id]")) {
    const fresh = page.getElementById(old.id);
    if (!fresh || fresh.innerHTML === old.dataset.source) continue;
    const active = document.activeElement;
    const focus = old.contains(active) ? active.getAttribute("href") || active.id : null;
    const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    const chosen = old.querySelector("tr.is-chosen")?.rowIndex;
    const opened = [...old.querySelectorAll("details")].map((each) => each.open);
    old.dataset.source = fresh.innerHTML;
    old.replaceChildren(...fresh.childNodes);
    if (fresh.dataset.live === undefined) delete old.dataset.live;
    else old.dataset.live = fresh.dataset.live;
    showTimes(old);
    old.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolled[index] || 0; });
    old.querySelectorAll("details").forEach((each, index) => { each.open = opened[index] ?? each.open; });
    if (old.id === "graph") showChosen(old);
    if (chosen) old.querySelector("table")?.rows[chosen]?.classList.add("is-chosen");
    if (focus) [...old.querySelectorAll("a, input")].find((each) => each.getAttribute("href") === focus || each.id === focus)?.focus();
  }
  const title = page.querySelector("title");
  if (title) document.title = title.textContent;
}

// Fetches the page again while a part of it is live, and the reader looks at it and selects nothing.
async function watchLive() {
  for (;;) {
    const waits = [...document.querySelectorAll("[data-live]")].map((each) => Number(each.dataset.live) || LIVE_MS);
    await new Promise((done) => setTimeout(done, Math.min(...waits, 5000)));
    if (document.hidden || !document.querySelector("[data-live]") || String(getSelection())) continue;
    try {
      const asked = location.href;
      const turn = typed;
      const answer = await fetch(asked, { headers: { Accept: "text/html" }, cache: "no-store" });
      const text = await answer.text();
      // Not what a search has left behind meanwhile.
      if (answer.ok && asked === location.href && turn === typed) replaceParts(text);
      document.body.classList.toggle("is-away", !answer.ok);
    } catch { document.body.classList.add("is-away"); } // the console is away: the next round asks again
  }
}

async function search(form) {
  const turn = ++typed;
  const query = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  const address = `${form.getAttribute("action") || location.pathname}?${query}`;
  const parts = document.querySelectorAll("[data-part][id]");
  parts.forEach((each) => each.classList.add("is-loading"));
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    const text = await answer.text();
    if (turn !== typed) return; // something was typed meanwhile
    history.replaceState(null, "", address);
    replaceParts(text);
  } catch { /* the form can still be sent */ } finally {
    if (turn === typed) parts.forEach((each) => each.classList.remove("is-loading"));
  }
}

function choose(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a") && row.offsetParent);
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.classList.contains("is-chosen"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, now < 0 ? 0 : now + step))];
  if (now >= 0) rows[now].classList.remove("is-chosen");
  next.classList.add("is-chosen");
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur?.();
    return;
  }
  if (event.key === "/") {
    const field = document.querySelector("main input[type=search]");
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "j") choose(1);
  else if (event.key === "k") choose(-1);
}

document.addEventListener("DOMContentLoaded", () => {
  showTimes(document);
  showChosen(document);
  for (const each of document.querySelectorAll("[data-part][id]")) each.dataset.source = "";
  const theme = document.querySelector("button.theme");
  if (theme) { theme.hidden = false; theme.addEventListener("click", switchTheme); }
  for (const each of document.querySelectorAll(".keys")) each.hidden = !document.querySelector("main tbody a, main input[type=search]");
  const copy = document.querySelector("button.copy");
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.querySelector("code.command").textContent);
      copy.textContent = "copied";
    });
  }
  for (const form of document.querySelectorAll("form[data-search]")) {
    let waiting = 0;
    form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => search(form), TYPING_MS); });
  }
  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  document.addEventListener("keydown", key);
  watchLive();
});
