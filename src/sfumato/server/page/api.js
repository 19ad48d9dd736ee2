// Requests to this server. The key lives in its input field and nowhere else; nothing is ever stored in the browser.

const key = document.getElementById("key");

export class Refused extends Error {}

function headers() {
  const found = { "content-type": "application/json" };
  if (key.value.trim()) found.authorization = `Bearer ${key.value.trim()}`;
  return found;
}

const plain = { cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer", redirect: "error" };

async function refusal(answer) {
  let detail = `the server answered with status ${answer.status}`;
  try {
    const problem = await answer.json();
    detail = problem.problems ? `${problem.detail}: ${problem.problems.join("; ")}` : problem.detail || detail;
  } catch {
    // Not one of the server's own problems: the status has to do.
  }
  return new Refused(detail);
}

export async function post(path, body, signal) {
  const answer = await fetch(path, { ...plain, method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

export async function get(path, values = {}, signal) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined));
  const address = query.size ? `${path}?${query}` : path;
  const answer = await fetch(address, { ...plain, headers: headers(), signal });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

// Streams a chat completion: calls `say` with each part of the answer, and returns the guarantee from the header.
export async function chat(body, say) {
  const answer = await fetch("/v1/chat/completions", {
    ...plain, method: "POST", headers: headers(), body: JSON.stringify({ ...body, stream: true }),
  });
  if (!answer.ok) throw await refusal(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += value || "";
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: ?/, "");
      if (data === "[DONE]") continue;
      const found = JSON.parse(data);
      if (found.error) throw new Refused(found.error.message);
      say(found.choices?.[0]?.delta?.content || "");
    }
    if (done) break;
  }
  return JSON.parse(answer.headers.get("sfumato-guarantee") || "null");
}
