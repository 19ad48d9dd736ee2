// Small helpers that make elements. Text goes in as text only: no markup is ever parsed.

export const byId = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [property, value] of Object.entries(properties)) {
    if (property.startsWith("aria-") || property === "role" || property === "scope") made.setAttribute(property, value);
    else made[property] = value;
  }
  made.append(...children);
  return made;
}

export function bar(share) {
  const inner = element("span");
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return element("div", { className: "bar", "aria-hidden": "true" }, inner);
}

export const percent = (value) => (value === null ? "none" : `${(100 * value).toFixed(value < 0.1 ? 2 : 1)} %`);
export const number = (value, digits = 3) =>
  value === null || value === undefined ? "none" : Number(Number(value).toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });

// Rows of name, value and a note in plain words.
export function figures(target, rows) {
  target.replaceChildren(
    ...rows.map(([name, value, note]) =>
      element("div", {}, element("dt", {}, name), element("dd", { className: value.length > 12 ? "words" : "" }, value),
        ...(note ? [element("dd", { className: "note" }, note)] : []))),
  );
}

// Bars of name, value as text, and share of the whole.
export function bars(target, rows) {
  target.replaceChildren(
    ...rows.map(([name, value, share]) => element("div", {}, element("p", {}, name, element("b", {}, value)), bar(share))),
  );
}

let speaking = null;

// Tells a screen reader what changed, once it has stopped changing.
export function speak(text) {
  clearTimeout(speaking);
  speaking = setTimeout(() => { byId("spoken").textContent = text; }, 800);
}

const status = byId("status");

export function say(text, wrong = false) {
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
}

export function options(select, values, kept) {
  const before = kept ?? select.value;
  select.replaceChildren(...values.map(([value, label]) => element("option", { value }, label)));
  if (values.some(([value]) => value === before)) select.value = before;
  select.disabled = values.length < 2;
}

export function documentLoss(document_) {
  if (!document_) return "not additive";
  return document_.greatest_loss === null ? "no finite bound" : number(document_.greatest_loss, 4);
}

// How sure somebody can be at most which of two words it was, who held them for equally likely and saw odds change by exp(loss).
const sure = (loss) => 1 / (1 + Math.exp(-loss));
const sureness = (loss) => (sure(loss) > 0.9999 ? "more than 99.99 %" : percent(sure(loss)));

function nearLoss(guarantee) {
  if (!guarantee.sound || typeof guarantee.certified !== "number") return null;
  if (guarantee.kind === "metric" && typeof guarantee.neighbour_distance === "number") return guarantee.certified * guarantee.neighbour_distance;
  return guarantee.kind === "group" ? guarantee.certified : null;
}

export function sureOfOne(guarantee) {
  const loss = nearLoss(guarantee);
  return loss === null ? "not known" : sureness(loss);
}

const BIG_LOSS = 7;

// The promise without a formula; nothing where it cannot be said in this way.
export function plainly(guarantee, document_) {
  const loss = nearLoss(guarantee);
  if (loss === null) return "";
  const two = guarantee.kind === "group" ? "two words of one group" : "a word and its typical nearest neighbour";
  const word = `Somebody who holds ${two} for equally likely, and then sees what came out, can be at most ${sureness(loss)} sure which of the two ` +
    `it was; 50 % would be no information at all.`;
  const whole = document_?.greatest_loss ?? null;
  if (document_ && (whole === null || whole > BIG_LOSS)) return `${word} That holds for each word by itself. Somebody who knows that the text is one of a few can learn which: the losses of its words add up.`;
  return word;
}

export function comparable(choice) {
  const parts = [choice.mechanism];
  if (choice.tuning) parts.push(choice.tuning);
  if (choice.epsilon !== null) parts.push(`ε ${choice.epsilon}`);
  return parts.join(" · ");
}
