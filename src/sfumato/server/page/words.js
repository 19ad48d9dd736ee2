// The text as a row of words: each shows how it changed, and what may come out for it when it is pointed at or focused.

import { bar, byId, element, percent, number } from "./view.js";

const card = byId("card");
const hidden = { current: null };

function label(old, fresh, fate) {
  if (fate === "kept") return `${old}: kept, not protected`;
  if (fate === "identifier") return `${old}: an identifier, replaced by a random one`;
  if (fresh === null) return `${old}: ${fate === "unknown" ? "not in the vocabulary, to be replaced" : "to be replaced"}`;
  const way = fate === "unknown" ? ", not in the vocabulary" : "";
  return fresh.toLowerCase() === old.toLowerCase() ? `${old} came out the same${way}` : `${old} became ${fresh}${way}`;
}

function wordButton(old, fresh, token, explained) {
  const changed = fresh !== null && fresh.toLowerCase() !== old.toLowerCase();
  const names = ["word"];
  if (changed) names.push("changed");
  if (token.fate === "kept") names.push("kept");
  if (token.fate === "unknown") names.push("unknown");
  const button = element("button", { type: "button", className: names.join(" "), tabIndex: -1 });
  if (changed) {
    const before = element("span", { className: "old" }, old);
    button.append(element("span", { className: "drawn" }, before, fresh));
  } else {
    button.append(fresh ?? old);
  }
  if (token.unchanged !== null) button.style.setProperty("--stays", token.unchanged);
  button.setAttribute("aria-label", label(old, fresh, token.fate));
  const show = () => showCard(button, old, token, explained);
  button.addEventListener("pointerenter", show);
  button.addEventListener("focus", show);
  button.addEventListener("click", show);
  button.addEventListener("pointerleave", hideSoon);
  button.addEventListener("blur", hideSoon);
  return button;
}

export function render(target, explained, released) {
  hide();
  const pieces = explained.pieces;
  const fresh = released?.pieces ?? null;
  if (released && !fresh) {
    target.replaceChildren(released.text);
    return;
  }
  const parts = [];
  const buttons = [];
  pieces.forEach((piece, place) => {
    if (place % 2 === 0) {
      // A full stop stays on the line of its word.
      const mark = parts.length ? piece.match(/^\S*/)[0] : "";
      if (mark) parts.push(element("span", { className: "held" }, parts.pop(), mark));
      if (piece.length > mark.length) parts.push(piece.slice(mark.length));
      return;
    }
    const token = explained.tokens[(place - 1) / 2];
    const button = wordButton(piece, fresh ? fresh[place] : null, token, explained);
    buttons.push(button);
    parts.push(button);
  });
  target.replaceChildren(...parts);
  if (buttons.length) buttons[0].tabIndex = 0;
  target.onkeydown = (event) => move(event, buttons);
}

// One stop for the tab key; arrows, Home and End move inside.
function move(event, buttons) {
  const place = buttons.indexOf(document.activeElement);
  if (place < 0) return;
  const steps = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: buttons.length - 1 };
  if (event.key === "Escape") hide();
  if (!(event.key in steps)) return;
  event.preventDefault();
  const next = buttons[Math.max(0, Math.min(buttons.length - 1, steps[event.key]))];
  buttons[place].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

const FATES = {
  kept: "The policy keeps this word: it is released as it is, without any protection.",
  unknown: "This word is not in the vocabulary. What replaces it does not depend on which word it was.",
  number: "A number: every digit is replaced by a random one, under a promise of its own.",
  identifier: "An identifier: a random one of its kind takes its place.",
  unlooked: "Beyond the number of words that are looked up at once.",
};

function showCard(button, old, token, explained) {
  clearTimeout(hidden.current);
  card.replaceChildren(element("h3", {}, old));
  if (token.word === null) {
    card.append(element("p", {}, FATES[token.fate]));
  } else {
    const word = explained.words[token.word];
    const rows = word.candidates.map((one) =>
      element("tr", { className: one.word === word.word ? "itself" : "" }, element("th", { scope: "row" }, one.word), element("td", {}, percent(one.probability)),
        element("td", {}, bar(one.probability / word.candidates[0].probability))));
    rows.push(element("tr", {}, element("th", { scope: "row" }, "all others"), element("td", {}, percent(word.others)), element("td")));
    card.append(
      element("p", { className: "help" }, `Stays as it is in ${percent(word.unchanged)} of draws. Expected distance ${number(word.distance)}.`),
      element("table", {}, element("tbody", {}, ...rows)),
    );
    if (!explained.exact) card.append(element("p", { className: "help" }, "Estimated from public draws."));
  }
  card.hidden = false;
  const around = button.getBoundingClientRect();
  const size = card.getBoundingClientRect();
  const below = around.bottom + size.height + 8 < window.innerHeight;
  card.style.left = `${Math.max(8, Math.min(around.left, window.innerWidth - size.width - 8))}px`;
  card.style.top = `${below ? around.bottom + 4 : Math.max(8, around.top - size.height - 4)}px`;
  button.setAttribute("aria-describedby", "card");
}

export function hide() {
  clearTimeout(hidden.current);
  card.hidden = true;
  card.replaceChildren();
}

function hideSoon(event) {
  event.currentTarget.removeAttribute("aria-describedby");
  clearTimeout(hidden.current);
  hidden.current = setTimeout(hide, 250);
}

card.addEventListener("pointerenter", () => clearTimeout(hidden.current));
card.addEventListener("pointerleave", hide);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
window.addEventListener("scroll", hide, { passive: true });
