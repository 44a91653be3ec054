// Manners of every page: rows that open, menus that close, times in the reader's zone, copy buttons.
import { failed } from "./failed.js";

const localTime = (element) => {
  const moment = new Date(element.dateTime);
  if (Number.isNaN(moment.getTime())) return;
  element.title = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" }).format(moment);
};
const titleTimes = (root) => root.querySelectorAll("time[datetime]").forEach(localTime);
titleTimes(document);
document.addEventListener("htmx:afterSettle", (event) => titleTimes(event.detail.elt ?? document));
document.addEventListener("assay:shown", (event) => titleTimes(event.detail));

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  const row = event.target.closest("tr[data-href]");
  if (!row || event.defaultPrevented || event.target.closest("a, button, input, select, label, summary")) return;
  if (String(getSelection())) return;
  if (event.metaKey || event.ctrlKey) window.open(row.dataset.href, "_blank", "noopener");
  else location.assign(row.dataset.href);
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.activeElement?.closest?.("details.menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = button.dataset.copy.startsWith("#") ? new URL(button.dataset.copy, location.href).href : button.dataset.copy;
  event.preventDefault();
  const said = button.getAttribute("aria-label");
  try {
    await navigator.clipboard.writeText(text);
    button.setAttribute("aria-label", "Copied");
    button.classList.add("copied");
    setTimeout(() => { button.setAttribute("aria-label", said); button.classList.remove("copied"); }, 1500);
  } catch { location.hash = button.dataset.copy; }
});

// A form that was refused shows what is wrong, however far down that is.
const wrong = document.querySelector("main :is([aria-invalid=true], ul.errorlist)");
if (wrong) {
  wrong.scrollIntoView({ block: "center" });
  if (wrong.matches("input, select, textarea")) wrong.focus({ preventScroll: true });
}

// On a narrow screen the current tab may lie outside of its scrolled row.
for (const tab of document.querySelectorAll(".tabs [aria-current], .bar nav [aria-current]")) {
  tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - 24;
}

// After the session has ended a fragment's answer is the login page: show that page, not a piece of it.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!new URL(event.detail.xhr.responseURL, location.href).pathname.startsWith("/login")) return;
  event.detail.shouldSwap = false;
  location.reload();
});

// A request that failed says so in place; nothing vanishes and nothing pretends to be saved.
document.addEventListener("htmx:responseError", (event) => showFailure(event.detail.target, failed(event.detail.xhr.status)));
document.addEventListener("htmx:sendError", (event) => showFailure(event.detail.target, "The server could not be reached."));
function showFailure(target, what) {
  const place = target?.querySelector(":scope > .notice.error") ?? target?.insertAdjacentElement("afterbegin", document.createElement("div"));
  if (!place) return;
  place.className = "notice error";
  place.setAttribute("role", "alert");
  place.textContent = `${what} Reload the page to try again.`;
}

// A table that scrolls can be reached by keyboard; one that fits adds no stop.
const markScrolling = () => {
  for (const wrap of document.querySelectorAll(".table-wrap")) {
    const scrolls = wrap.scrollWidth > wrap.clientWidth;
    wrap.toggleAttribute("tabindex", scrolls);
    if (!scrolls) continue;
    wrap.tabIndex = 0;
    wrap.setAttribute("role", "region");
    wrap.setAttribute("aria-label", wrap.querySelector("caption")?.textContent.trim() || "Table");
  }
};
markScrolling();
addEventListener("resize", markScrolling);
document.addEventListener("htmx:afterSettle", markScrolling);
