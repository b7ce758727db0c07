// Behavior of the pages in addition to htmx: charts, dialogs, shortcuts, row selection and relative
// times. It holds no data of its own.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Times

  const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  const length = (s) => {
    for (const [size, name, below, next] of units) {
      if (s < size) continue;
      const rest = Math.floor((s % size) / below);
      return `${Math.floor(s / size)} ${name}` + (rest ? ` ${rest} ${next}` : "");
    }
    return `${s} s`;
  };
  // The server's clock, taken from the Date header of responses, because the clock of this machine
  // may be wrong.
  let ahead = 0;
  const now = () => Date.now() - ahead;
  const relative = () => {
    for (const t of $$("time[data-relative]")) {
      const s = Math.round((Date.parse(t.dateTime) - now()) / 1000);
      const words = s > 0 ? "in " + length(s) : s === 0 ? "now" : length(-s) + " ago";
      if (t.textContent !== words) t.textContent = words;
    }
  };
  setInterval(relative, 1000);

  // Charts

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const seconds = (s) => (s < 1 ? `${Math.round(s * 1000)} ms` : length(Math.round(s)));
  const axes = (values, size = 56) => {
    const grid = { stroke: color("--edge"), width: 1 };
    const ink = { stroke: color("--pico-muted-color"), grid, ticks: { show: false }, font: "11px ui-sans-serif, system-ui, sans-serif" };
    const two = (n) => String(n).padStart(2, "0");
    const hours = (u, list) => list.map((s) => {
      const d = new Date(s * 1000), exact = u.scales.x.max - u.scales.x.min < 300;
      return `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}` + (exact ? `:${two(d.getUTCSeconds())}` : "");
    });
    return [{ ...ink, grid: { show: false }, space: 70, values: hours, size: 30 }, { ...ink, size, values: (u, list) => list.map((v) => (v == null ? "" : values(v))) }];
  };
  const base = (element) => ({
    width: element.clientWidth, height: element.clientHeight, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1e3), "UTC"),
    cursor: { points: { show: false }, drag: { x: false, y: false } }, legend: { show: false }, padding: [8, 20, 0, 0],
  });

  // outlook adds the forecast of a suggestion to a tempo chart, and returns its line.
  const outlook = (d) => {
    const line = [...d.times.map(() => null), ...d.then.interval];
    for (const list of [d.interval, d.hint, d.backoff, d.clamped]) list.push(...d.then.times.map(() => null));
    d.times.push(...d.then.times);
    return line;
  };

  const draw = {
    outcomes(element, d) {
      const sum = (...lists) => d.times.map((_, i) => lists.reduce((n, list) => n + list[i], 0));
      const bars = uPlot.paths.bars({ size: [0.8, 60], align: 1 });
      const layer = (name) => ({ stroke: color(name), fill: color(name), width: 0, paths: bars, points: { show: false } });
      return [{
        ...base(element), axes: axes((v) => (v % 1 ? "" : String(v))), scales: { y: { range: (u, min, max) => [0, Math.max(4, max * 1.1)] } },
        series: [{}, layer("--bad"), layer("--lost"), layer("--quiet"), layer("--good")],
      }, [d.times, sum(d.succeeded, d.other, d.lost, d.failed), sum(d.succeeded, d.other, d.lost), sum(d.succeeded, d.other), d.succeeded],
      d.times.some((_, i) => d.succeeded[i] + d.failed[i] + d.lost[i] + d.other[i])];
    },
    lag(element, d) {
      const line = (name, dash) => ({ stroke: color(name), width: 1.75, dash, spanGaps: true, points: { size: 4, fill: color(name) } });
      return [{
        ...base(element), axes: axes((v) => (v < 1000 ? `${v} ms` : seconds(v / 1000))), scales: { y: { range: (u, min, max) => [0, Math.max(10, max * 1.15)] } },
        series: [{}, line("--live"), line("--held", [5, 4])],
      }, [d.times, d.lagP50, d.lagP99], d.lagP50.some((v) => v != null)];
    },
    tempo(element, d) {
      const flat = (v) => d.times.map(() => v);
      const points = (name) => ({ stroke: color(name), width: 0, paths: () => null, points: { show: true, size: 6, fill: color(name) } });
      const stepped = uPlot.paths.stepped({ align: 1 });
      const shade = (u, spans, ink) => {
        u.ctx.save();
        u.ctx.fillStyle = ink;
        for (const [from, to] of spans) {
          const x = Math.max(u.bbox.left, u.valToPos(from, "x", true)), end = Math.min(u.bbox.left + u.bbox.width, u.valToPos(to, "x", true));
          if (end > x) u.ctx.fillRect(x, u.bbox.top, Math.max(2, end - x), u.bbox.height);
        }
        u.ctx.restore();
      };
      const then = d.then ? outlook(d) : null;
      const values = [...d.interval, ...(then || []), d.baseline, d.min, d.max].filter((v) => v != null && v > 0);
      if (values.length === 0) values.push(1, 60); // uPlot does not end on a logarithmic scale without bounds.
      const low = Math.min(...values) / 1.6, high = Math.max(...values) * 1.6;
      const limit = (v) => ({ stroke: v == null ? "transparent" : color("--live"), width: 1, points: { show: false } });
      return [{
        ...base(element), axes: axes(seconds, 64), scales: { y: { distr: 3, range: () => [low, high] } },
        bands: d.min != null || d.max != null ? [{ series: [3, 2], fill: color("--band") }] : [],
        series: [
          {}, { stroke: color("--quiet"), width: 1, dash: [6, 4], points: { show: false } }, limit(d.min), limit(d.max),
          { stroke: color("--pico-color"), width: 1.75, paths: stepped, points: { show: false } }, points("--lost"), points("--bad"), points("--live"),
          ...(then ? [{ stroke: color("--lost"), width: 2.5, dash: [8, 4], paths: stepped, points: { show: true, size: 7, fill: color("--lost") } }] : []),
        ],
        hooks: { drawClear: [(u) => { shade(u, d.hints, color("--lost-soft")); shade(u, d.pauses, color("--held-soft")); if (d.then?.paused) shade(u, [d.then.paused], color("--held-soft")); }] },
      }, [d.times, flat(d.baseline), flat(d.min ?? low), flat(d.max ?? high), d.interval, d.hint, d.backoff, d.clamped, ...(then ? [then] : [])], d.times.length > 1];
    },
  };

  const cache = new Map(); // The charts of one page share responses.
  const read = (source) => {
    const kept = cache.get(source);
    if (kept && Date.now() - kept.at < 900) return kept.data;
    const data = fetch(source, { headers: { Accept: "application/json", "HX-Request": "true" } }).then((r) => {
      if (!r.ok || r.redirected) throw new Error(`status ${r.status}`);
      const date = Date.parse(r.headers.get("Date"));
      if (date) ahead = Math.abs(Date.now() - date) > 2000 ? Date.now() - date : 0;
      return r.json();
    });
    cache.set(source, { at: Date.now(), data });
    return data;
  };
  const chart = async (element) => {
    let data;
    try { data = await read(element.dataset.source); } catch { return; } // The next tick tries again.
    if (!element.isConnected) return;
    const [options, series, any] = draw[element.dataset.chart](element, data);
    element.plot?.destroy();
    element.plot = null;
    element.textContent = "";
    if (!any) {
      const words = document.createElement("p");
      words.className = "none";
      words.textContent = "No data yet.";
      element.append(words);
      return;
    }
    element.plot = new uPlot(options, series, element);
  };
  const charts = () => $$("[data-chart]").forEach(chart);
  let drawn = 0;
  const redraw = () => {
    if (Date.now() - drawn < 2000 || document.hidden) return;
    drawn = Date.now();
    charts();
  };

  // Live parts: each is streamed from the server while the page is visible. A stream begins with
  // the complete part, so that no earlier change is missed. A stream that ends, is refused or falls
  // silent is reopened with backoff, and the page is marked as stale.

  const silence = 40_000; // milliseconds; the server sends a heartbeat every 15 s
  const stale = new Map(); // start time and reason of staleness, by part
  const tellStale = () => {
    const first = [...stale.values()].sort((a, b) => a.since - b.since)[0], box = $("#stale");
    const words = first && Date.now() - first.since > 5000
      ? `Not live since ${new Date(first.since - ahead).toISOString().slice(11, 19)} UTC: ${first.why || "the server does not respond"}. The page reconnects automatically.` : "";
    if (box && box.textContent !== words) box.textContent = words;
  };
  setInterval(tellStale, 1000);
  // An EventSource does not report why it was refused, so a fetch of the same address gets the
  // reason.
  const askWhy = async (element) => {
    const enough = new AbortController();
    let why = "";
    try {
      const r = await fetch(element.dataset.live, { headers: { Accept: "text/event-stream" }, signal: enough.signal });
      if (!r.ok) why = `the server responds with status ${r.status}`;
      if (!r.ok && (r.headers.get("Content-Type") || "").startsWith("text/plain")) why = (await r.text()).trim().slice(0, 300) || why;
    } catch { /* There is no answer. */ }
    enough.abort();
    const part = stale.get(element);
    if (part) part.why = why;
  };
  const live = (element) => {
    let source = null, timer = 0, failures = 0;
    const stop = () => { clearTimeout(timer); source?.close(); source = null; };
    const again = () => {
      stop();
      if (document.hidden) return;
      if (!stale.has(element)) stale.set(element, { since: Date.now(), why: "" });
      timer = setTimeout(start, Math.min(10_000, 500 * 2 ** failures++) * (0.7 + 0.6 * Math.random()));
    };
    const heard = () => {
      failures = 0;
      stale.delete(element);
      clearTimeout(timer);
      timer = setTimeout(again, silence);
    };
    const start = () => {
      stop();
      if (document.hidden) return;
      source = new EventSource(element.dataset.live);
      timer = setTimeout(again, silence);
      source.addEventListener("message", (event) => {
        heard();
        htmx.swap({ sourceElement: element, target: element, text: event.data, swap: "innerMorph swapEmpty:false" }).then(redraw);
      });
      source.addEventListener("beat", heard);
      source.addEventListener("over", () => { stop(); location.reload(); });
      source.addEventListener("error", () => {
        const refused = source?.readyState === EventSource.CLOSED; // Otherwise the connection failed or ended.
        again();
        const part = stale.get(element);
        if (refused) askWhy(element); else if (part) part.why = "";
      });
    };
    document.addEventListener("visibilitychange", () => { stale.delete(element); if (document.hidden) stop(); else start(); });
    start();
  };

  // A visible list is polled, so that its next runs stay current. Polling pauses while rows are
  // selected.

  let refreshing = false;
  const rowsOf = (list) => $$("tr[data-tag]", list);
  // Only changed cells are replaced, so that focus and text selection are kept.
  const fill = (text) => {
    const news = document.createElement("template");
    news.innerHTML = text;
    for (const row of rowsOf(news.content)) {
      const old = document.getElementById(row.id);
      if (!old) continue;
      [...row.cells].forEach((cell, i) => { if (!cell.matches(".tick") && old.cells[i]?.innerHTML !== cell.innerHTML) old.cells[i]?.replaceWith(cell.cloneNode(true)); });
      old.dataset.tag = row.dataset.tag;
    }
    relative();
  };
  const refresh = async () => {
    const list = $("[data-refresh]"), source = list?.dataset.refresh;
    if (!list || document.hidden || refreshing) return;
    refreshing = true;
    let why = "";
    try {
      const known = [list.dataset.frame, ...rowsOf(list).map((row) => row.dataset.tag)].join();
      const r = await fetch(source, { headers: { Accept: "text/html", "HX-Request": "true", "Rubato-Rows": known }, signal: AbortSignal.timeout(10_000) });
      if (r.redirected) return location.reload(); // The session is over.
      if (!r.ok) throw new Error(why = `the server responds with status ${r.status}`);
      const text = await r.text(), still = $("[data-refresh]");
      stale.delete(refresh);
      tellStale();
      if (still?.dataset.refresh !== source || still.dataset.frame !== list.dataset.frame || $("[data-tick]:checked")) return;
      if (r.headers.get("Rubato-Part") === "rows") fill(text);
      else if (text) htmx.swap({ sourceElement: still, target: still, text, swap: "outerMorph" });
    } catch {
      if (!document.hidden) stale.set(refresh, { since: stale.get(refresh)?.since ?? Date.now(), why });
    } finally { refreshing = false; }
  };
  setInterval(refresh, 5000);
  document.addEventListener("visibilitychange", () => { stale.delete(refresh); refresh(); });

  // Dialogs

  const close = (dialog) => { if (dialog?.open) dialog.close(); };
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open).showModal();
    if (event.target.closest("[data-close]")) {
      const dialog = event.target.closest("dialog");
      if (dialog) close(dialog); else location.href = $(".standalone").dataset.back;
    }
    if (event.target.closest("[data-theme-switch]")) theme();
    const copied = event.target.closest("[data-copy]");
    if (copied) navigator.clipboard.writeText(document.getElementById(copied.dataset.copy).textContent).then(() => { copied.textContent = "Copied"; });
  });

  // Light and dark

  const theme = () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    document.cookie = `rubato_theme=${dark ? "light" : "dark"}; Path=/; Max-Age=31536000; SameSite=Strict`;
    charts();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", charts);

  // Shortcuts

  const paths = { o: "/", e: "/console/endpoints", r: "/console/runs", p: "/console/planner", n: "/console/notices", w: "/console/workers", h: "/console/hosts", d: "/console/dead-letters", c: "/console/chains", l: "/console/calls", g: "/console/guarantees" };
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select") || $("dialog[open]")) return;
    if (Date.now() - going < 1500) {
      going = 0;
      if (paths[event.key]) { location.href = paths[event.key]; event.preventDefault(); }
      return;
    }
    switch (event.key) {
      case "g": going = Date.now(); break;
      case "n": location.href = "/console/endpoints/new"; break;
      case "t": theme(); break;
      case "?": $("#shortcuts")?.showModal(); break;
      case "/": { const field = $("[data-search]"); if (field) { field.focus(); event.preventDefault(); } else { location.href = "/console/endpoints"; } }
    }
  });

  // Row selection

  const ticks = () => {
    const all = $$("[data-tick]:not([disabled])"), on = all.filter((box) => box.checked);
    for (const button of $$("[data-needs-tick]")) button.disabled = on.length === 0;
    const words = $("[data-tick-count]");
    if (words) words.textContent = on.length ? `${on.length} selected` : "";
    const every = $("[data-tick-all]");
    if (every) { every.checked = on.length > 0 && on.length === all.length; every.indeterminate = on.length > 0 && on.length < all.length; }
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-tick-all]")) $$("[data-tick]:not([disabled])").forEach((box) => { box.checked = event.target.checked; });
    if (event.target.matches("[data-tick], [data-tick-all]")) ticks();
    if (event.target.matches("[data-submit-on-change]")) event.target.form.requestSubmit();
  });
  document.addEventListener("submit", (event) => {
    const words = event.target.dataset.confirm;
    if (words && !confirm(words)) event.preventDefault();
  }, true);

  // Errors of a draft, at their fields. While typing, only touched fields show errors.

  const touched = new Set();
  document.addEventListener("input", (event) => {
    if (!event.target.closest("#endpoint-form")) return;
    touched.add(event.target.name);
    const line = event.target.closest(".row")?.querySelector("[data-error-of]"); // The fields of a row share one error line.
    if (line) touched.add(line.dataset.errorOf);
  });
  const drafted = () => {
    if (!$("#draft [data-drafted]")) return; // The errors of a submitted form stay until the next input.
    const found = new Map($$("#draft [data-error]").map((e) => [e.dataset.error, e.textContent]));
    for (const line of $$("#endpoint-form [data-error-of]")) {
      const name = line.dataset.errorOf, words = touched.has(name) ? found.get(name) || "" : touched.size ? line.textContent && found.has(name) ? line.textContent : "" : line.textContent;
      if (line.textContent !== words) line.textContent = words;
      const field = document.getElementById("f-" + name);
      if (words) field?.setAttribute("aria-invalid", "true"); else field?.removeAttribute("aria-invalid");
    }
  };

  // Rows of fields: a new row is an empty copy of the last one with the next number.

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-add-row]");
    if (!button) return;
    const rows = $$(".row", button.previousElementSibling), last = rows.at(-1), next = last.cloneNode(true);
    for (const e of $$("*", next)) {
      for (const a of ["id", "name", "aria-describedby", "data-error-of"]) {
        if (e.hasAttribute(a)) e.setAttribute(a, e.getAttribute(a).replace(/^((?:[ef]-)?(?:rule|redact))\d+/, `$1${rows.length}`));
      }
      e.removeAttribute("aria-invalid");
      if (e.matches("input, select")) e.value = "";
      if (e.matches("[data-error-of]")) e.textContent = "";
    }
    last.after(next);
    button.hidden = rows.length + 1 >= Number(button.dataset.addRow);
    $("select", next).focus();
  });

  // Events of htmx

  // A dialog opens when its content arrives. Closing keeps the content until the next dialog
  // replaces it, because the close event comes a frame later: on a busy machine it would clear the
  // next dialog.
  document.addEventListener("htmx:before:settle", (event) => {
    if (event.target.id === "dialog" && !event.target.open) { event.target.showModal(); $$("[data-chart]", event.target).forEach(chart); first(event.target); }
  });
  // Focus the first field, otherwise the cancel button, but never the close icon.
  const first = (dialog) => ($("[autofocus]", dialog) || $("input:not([type=hidden]), select, textarea", dialog) || $("footer [data-close]", dialog))?.focus();
  // A request without a response shows an error at its form.
  const showFailure = (words) => {
    const box = $("dialog[open] #dialog-error") || $("#notices");
    box.textContent = "";
    if (!words) return;
    const notice = document.createElement("div");
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    notice.textContent = words;
    box.append(notice);
  };
  document.addEventListener("htmx:error", (event) => {
    const ctx = event.detail.ctx;
    if (ctx) showFailure("The server did not respond. " + (ctx.request?.method === "GET" ? "Try again." : "Check whether the change was made before you try again."));
  });
  document.addEventListener("htmx:after:request", () => { $("#notices").textContent = ""; });
  // After a bulk action the selection is cleared and the list is reloaded.
  const untick = () => {
    const done = $("#dialog [data-untick]");
    if (!done) return;
    done.removeAttribute("data-untick");
    $$("[data-tick]:checked").forEach((box) => { box.checked = false; });
    refresh();
  };
  document.addEventListener("htmx:after:swap", () => {
    untick();
    ticks();
    drafted();
    relative();
  });
  document.addEventListener("visibilitychange", redraw);
  let resized;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(charts, 150); });
  $$("[data-live]").forEach(live);
  $("[data-focus]")?.focus();
  charts();
  ticks();
})();
