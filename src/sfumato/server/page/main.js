// The page: what is chosen, what is asked of the server, and what is shown.

import { chat, get, post } from "./api.js";
import { bars, byId, comparable, documentLoss, element, figures, number, options, percent, plainly, say, speak, sureOfOne } from "./view.js";
import { hide, render } from "./words.js";

const WAIT = 200;
const EXAMPLE = "I saw my doctor on Monday because my knee has hurt since the spring, and she told me to rest for two weeks.";
const state = { offers: null, epsilons: [], explained: null, released: null, running: null, timer: null };

const text = byId("text");
const mechanism = byId("mechanism");
const tuning = byId("tuning");
const policy = byId("policy");
const epsilon = byId("epsilon");

const offered = (name) => state.offers.mechanisms.find((one) => one.name === name);
const allChoices = () =>
  state.offers.mechanisms.flatMap((one) =>
    (one.tunings.length ? one.tunings : [null]).flatMap((way) =>
      (one.epsilons.length ? one.epsilons : [null])
        .filter((value) => !one.refused.some((not) => not.tuning === way && not.epsilon === value))
        .map((value) => ({ mechanism: one.name, tuning: way, epsilon: value }))));

function chosen() {
  return {
    mechanism: mechanism.value,
    tuning: tuning.value || null,
    epsilon: state.epsilons.length ? state.epsilons[Number(epsilon.value)] : null,
    policy: policy.value || null,
  };
}

async function loadOffers() {
  try {
    state.offers = await get("/v1/offers");
  } catch (error) {
    say(byId("key").value ? error.message : "This service asks for an API key: give yours above.", true);
    return;
  }
  say("");
  const { mechanisms, policies, budgets, subject, chat_models: models, chat_restore: restore } = state.offers;
  options(mechanism, mechanisms.map((one) => [one.name, one.name]));
  options(policy, policies.map((name) => [name, name]));
  const every = allChoices().map((choice) => [JSON.stringify(choice), comparable(choice)]);
  for (const id of ["left", "right", "audited"]) options(byId(id), every);
  if (every.length > 1 && byId("left").value === byId("right").value) byId("right").value = every[1][0];
  byId("auto").checked = byId("draw-both").checked = !budgets;
  byId("draw-both-label").hidden = byId("chat-price").hidden = !budgets;
  byId("subject").value ||= subject ?? "";
  byId("no-budgets").hidden = budgets;
  byId("budget-form").hidden = byId("budget-lead").hidden = !budgets;
  byId("tab-chat").hidden = models.length === 0;
  byId("restore").disabled = !restore;
  if (!restore) byId("restore-help").textContent = "The operator of this service does not allow that words are put back.";
  showMechanism();
}

function showMechanism() {
  const one = offered(mechanism.value);
  if (!one) {
    say("This key may use nothing here; give another one.", true);
    return;
  }
  mechanism.title = one.summary;
  options(tuning, one.tunings.length ? one.tunings.map((name) => [name, name]) : [["", "none"]]);
  const before = state.epsilons[Number(epsilon.value)];
  const first = one.epsilons[0];
  state.epsilons = [...one.epsilons].sort((a, b) => a - b);
  epsilon.max = Math.max(0, state.epsilons.length - 1);
  epsilon.disabled = state.epsilons.length < 2;
  epsilon.value = Math.max(0, state.epsilons.indexOf(state.epsilons.includes(before) ? before : first));
  showEpsilon();
  changed();
}

function showEpsilon() {
  const value = state.epsilons[Number(epsilon.value)];
  byId("epsilon-value").textContent = value === undefined ? "none" : String(value);
  epsilon.setAttribute("aria-valuetext", value === undefined ? "none" : `epsilon ${value}`);
}

function changed() {
  state.released = null;
  byId("copy").disabled = true;
  clearTimeout(state.timer);
  state.timer = setTimeout(() => look(), WAIT);
}

async function look(release = false) {
  clearTimeout(state.timer);
  state.running?.abort();
  const running = (state.running = new AbortController());
  if (!text.value.trim()) {
    byId("out").replaceChildren();
    byId("told").hidden = true;
    return;
  }
  try {
    const found = await post("/v1/explain", { text: text.value, top: 8, ...chosen() }, running.signal);
    if (running.signal.aborted) return;
    state.explained = found;
    showFigures(found);
    if (release || byId("auto").checked) await draw(running.signal);
    else {
      render(byId("out"), found, null);
      say("");
    }
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
  }
}

async function draw(signal) {
  const answer = await post("/v1/privatize", { text: text.value, pieces: true, ...chosen(), subject: byId("subject").value || null }, signal);
  state.released = answer.results[0];
  render(byId("out"), state.explained, state.released);
  byId("copy").disabled = false;
  say(answer.charge ? `Charged ${number(answer.charge.amount, 4)}.` : "");
}

function showFigures(found) {
  const rows = [
    ["P(unchanged), mean", percent(found.unchanged), "chance that a protected word stays as it is"],
    ["Expected distance", number(found.distance), "from a word to what comes out"],
    ["Certified epsilon", number(found.certified, 4), "for one word, computed from the table"],
    ["Document-level loss", documentLoss(found.document), "for the whole text, at most"],
    ["Protected words", String(found.protected), "are drawn anew"],
  ];
  if (found.price !== null) rows.push(["Price of a release", number(found.price, 4), "from the budget"]);
  figures(byId("figures"), rows);
  byId("told").hidden = false;
  speak(`${percent(found.unchanged)} of protected words stay. Certified epsilon ${number(found.certified, 4)}.`);
  byId("draw").textContent = found.price === null ? "Draw" : `Release for ${number(found.price, 4)}`;
  byId("plain").textContent = plainly(found.guarantee, found.document);
  const statement = found.guarantee.statement;
  const end = statement.indexOf(" Not hidden,");
  byId("promise").textContent = end > 0 ? statement.slice(0, end) : statement;
  byId("promise-text").textContent = found.document?.statement ?? "";
  byId("statement").textContent = statement;
}

async function throughOne(choice) {
  const asked = { text: text.value, policy: policy.value || null, ...choice };
  const explained = await post("/v1/explain", { ...asked, top: 8 });
  if (!byId("draw-both").checked) return { choice, explained, released: null, charge: null };
  const answer = await post("/v1/privatize", { ...asked, pieces: true, subject: byId("subject").value || null });
  return { choice, explained, released: answer.results[0], charge: answer.charge };
}

async function compareTwo() {
  if (!text.value.trim()) {
    say("Give a text in the first view.", true);
    return;
  }
  const two = [];
  for (const id of ["left", "right"]) two.push(await throughOne(JSON.parse(byId(id).value)));
  ["left-out", "right-out"].forEach((id, place) => render(byId(id), two[place].explained, two[place].released));
  const row = (name, value) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...two.map((one) => element("td", {}, value(one))));
  byId("compared").replaceChildren(
    element("caption", { className: "help" }, "Figures are for your text."),
    element("thead", {}, element("tr", {}, element("td"), ...two.map((one) => element("th", { scope: "col" }, comparable(one.choice))))),
    element("tbody", {},
      row("P(unchanged), mean", (one) => percent(one.explained.unchanged)),
      row("Expected distance", (one) => number(one.explained.distance)),
      row("Kind of guarantee", (one) => one.explained.guarantee.kind + (one.explained.guarantee.sound ? "" : " (unsound)")),
      row("Certified epsilon", (one) => number(one.explained.certified, 4)),
      row("Document-level loss", (one) => documentLoss(one.explained.document)),
      row("At most this sure which of two near words", (one) => sureOfOne(one.explained.guarantee))),
  );
  const charged = two.filter((one) => one.charge).map((one) => number(one.charge.amount, 4));
  say(charged.length ? `Charged ${charged.join(" and ")}.` : "");
}

async function measure() {
  say("Measuring ...");
  const { mechanism: name, tuning: way, epsilon: value } = JSON.parse(byId("audited").value);
  const found = await get("/v1/audit", { mechanism: name, tuning: way, epsilon: value });
  const verified = found.verified === null ? "not recomputed here" : found.verified ? "yes" : "NO";
  const rows = [
    ["Certified epsilon", number(found.certified, 4), "what is promised for one word"],
    ["Claim holds", verified, "when it is recomputed over all pairs of words"],
    ["P(unchanged), mean", percent(found.unchanged), "chance that a word stays as it is"],
    ["Words that share 95 %", number(found.spread, 4), "of the draws for a word, on average"],
    ["Expected distance", number(found.distance), "from a word to what comes out"],
  ];
  if (found.realised !== null) rows.splice(1, 0, ["Realised epsilon", number(found.realised, 4), "what the table gives away, at most"]);
  if (found.attack_success !== null) rows.push(["Bayes attack succeeds", percent(found.attack_success), "the best guess that there is"]);
  figures(byId("audit-figures"), rows);
  bars(byId("attack-bars"), found.attack_success === null ? [] : [
    ["The best guess from the output is right", percent(found.attack_success), found.attack_success],
    ["The best guess without it", percent(found.attack_blind), found.attack_blind],
  ]);
  byId("attack").textContent = found.attack_success === null
    ? "The best possible attack is computed from a table of probabilities, and this mechanism has none."
    : `An attacker who knows the mechanism and sees one output word, drawn for one of ${found.attack_words.toLocaleString("en")} equally ` +
      `likely words, guesses the word behind it in ${percent(found.attack_success)} of cases; nobody can do better from that. ` +
      `Without the output the guess is right in ${percent(found.attack_blind)}.`;
  say("");
}

async function showBudget() {
  const found = await get(`/v1/budget/${encodeURIComponent(byId("subject").value)}`);
  figures(byId("budget-figures"), [
    ["Limit", number(found.limit, 6)], ["Spent", number(found.spent, 6)], ["Left", number(found.left, 6)], ["Charges", String(found.charges)], ["In units of", found.meaning],
  ]);
  const share = Number(found.spent) / Math.max(Number(found.limit), 1e-12);
  bars(byId("budget-bars"), [["Spent", percent(share), share]]);
  say("");
}

async function ask() {
  const answer = byId("answer");
  answer.textContent = "";
  say("Asking ...");
  const body = { messages: [{ role: "user", content: byId("message").value }], sfumato_restore: byId("restore").checked };
  if (byId("subject").value) body.sfumato_subject = byId("subject").value;
  const promise = await chat(body, (part) => { answer.textContent += part; });
  byId("chat-promise").textContent = promise
    ? `The model saw ${promise.protected_words} ${promise.protected_words === 1 ? "word" : "words"} drawn by ${promise.mechanism}` +
      (promise.certified === undefined ? "." : `, with certified epsilon ${number(promise.certified, 4)} for each.`)
    : "";
  say("");
}

function guarded(action) {
  return async (event) => {
    event?.preventDefault?.();
    try {
      await action();
    } catch (error) {
      say(error.message, true);
    }
  };
}

function selectTab(tab) {
  hide();
  for (const one of document.querySelectorAll('[role="tab"]')) {
    const selected = one === tab;
    one.setAttribute("aria-selected", String(selected));
    one.tabIndex = selected ? 0 : -1;
    byId(one.getAttribute("aria-controls")).hidden = !selected;
  }
  if (tab.id === "tab-budget" && state.offers?.budgets && byId("subject").value) guarded(showBudget)();
}

function tabKeys(event) {
  const tabs = [...document.querySelectorAll('[role="tab"]:not([hidden])')];
  const place = tabs.indexOf(document.activeElement);
  const steps = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 };
  if (place < 0 || !(event.key in steps)) return;
  event.preventDefault();
  const next = tabs[(steps[event.key] + tabs.length) % tabs.length];
  selectTab(next);
  next.focus();
}

function isDark() {
  const set = document.documentElement.dataset.theme;
  return set === "dark" || (set === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
}

function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  byId("theme").setAttribute("aria-pressed", String(isDark()));
}

async function takeFile(event) {
  event.preventDefault();
  text.classList.remove("over");
  const file = event.dataTransfer.files[0];
  const most = state.offers?.limits.text_chars ?? 200000;
  const found = file ? await file.slice(0, 4 * most).text() : event.dataTransfer.getData("text/plain");
  text.value = found.slice(0, most);
  if (found.length > most) say(`Only the first ${most} characters were taken.`, true);
  changed();
}

text.addEventListener("input", () => { say(""); changed(); });
text.addEventListener("dragover", (event) => { event.preventDefault(); text.classList.add("over"); });
text.addEventListener("dragleave", () => text.classList.remove("over"));
text.addEventListener("drop", guardedDrop);
function guardedDrop(event) { takeFile(event).catch((error) => say(error.message, true)); }
mechanism.addEventListener("change", showMechanism);
for (const one of [tuning, policy]) one.addEventListener("change", changed);
epsilon.addEventListener("input", () => { showEpsilon(); changed(); });
byId("auto").addEventListener("change", () => { if (byId("auto").checked) changed(); });
byId("draw").addEventListener("click", () => look(true));
byId("example").addEventListener("click", () => { text.value = EXAMPLE; text.focus(); changed(); });
byId("copy").addEventListener("click", guarded(async () => {
  await navigator.clipboard.writeText(state.released.text);
  say("Copied.");
}));
byId("compare").addEventListener("click", guarded(compareTwo));
byId("audit").addEventListener("click", guarded(measure));
byId("send").addEventListener("click", guarded(ask));
byId("budget-form").addEventListener("submit", guarded(showBudget));
byId("key").addEventListener("change", loadOffers);
byId("theme").addEventListener("click", switchTheme);
byId("theme").setAttribute("aria-pressed", String(isDark()));
byId("tabs").addEventListener("click", (event) => { if (event.target.role === "tab") selectTab(event.target); });
byId("tabs").addEventListener("keydown", tabKeys);
// A page that is left keeps nothing, not even for the back button.
window.addEventListener("pagehide", () => {
  for (const id of ["text", "message", "key", "subject"]) byId(id).value = "";
  for (const id of ["out", "left-out", "right-out", "answer", "spoken"]) byId(id).replaceChildren();
  hide();
});
window.addEventListener("pageshow", loadOffers);
