// Pieces of the page. Names are always set as text, never as markup, and styles come from classes alone.

const SVG = "http://www.w3.org/2000/svg";

const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
};
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
// The direction of a name's script must not change the text around it.
const named = (text) => el("bdi", {}, text);
const plural = (count, one, more = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;

const withDigits = (value, digits) => {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text; // no "-0"
};

// How many digits after the point a share in percent needs.
const digitsOf = (percent) =>
  percent >= 99.95 || percent === 0 ? 0 : percent > 99 ? 1 : percent >= 10 ? 0 : percent >= 1 ? 1 : Math.min(6, 1 - Math.floor(Math.log10(percent)));

const percent = (share) => {
  if (share === null) return "unknown";
  return `${withDigits(100 * share, digitsOf(100 * Math.abs(share)))}%`;
};

const percentRange = (low, high) => {
  if (low === null || high === null) return "";
  const width = 100 * (high - low);
  const digits = width <= 0 ? digitsOf(100 * high) : Math.min(6, Math.max(0, Math.ceil(-Math.log10(width))));
  return `${withDigits(100 * low, digits)} to ${withDigits(100 * high, digits)}%`;
};

const times = (lift) => {
  if (lift === null) return "unknown";
  const digits = lift >= 10 || lift === 0 ? 0 : lift >= 0.9 && lift < 1.1 ? 2 : lift >= 1 ? 1 : Math.min(6, 1 - Math.floor(Math.log10(lift)));
  return `${Number(lift.toFixed(digits)).toLocaleString("en", { maximumFractionDigits: 6 })}×`;
};

const compact = (value) => (value === null ? "" : Number(value.toPrecision(3)).toString());

// Ticks of an axis from 0 to a limit: at most five round numbers.
const ticks = (limit) => {
  const step = [1, 2, 2.5, 5, 10].map((unit) => unit * 10 ** Math.floor(Math.log10(limit / 4))).find((unit) => limit / unit <= 4.001);
  return Array.from({ length: Math.floor(limit / step + 1e-9) + 1 }, (_, at) => Number((at * step).toPrecision(6)));
};

const tickName = (tick) => `${Number((100 * tick).toPrecision(6))}%`;

const at = (value, limit) => `${Math.max(0, Math.min(100, (100 * value) / limit)).toFixed(2)}%`;

// One row of a chart: the share inside with its interval, and the share outside with its own.
const dumbbell = (row, limit) => {
  const line = (name, from, to, y) => svg("line", { class: name, x1: at(from, limit), x2: at(to, limit), y1: y, y2: y });
  const whisker = (name, low, high, y) => (low === null || high === null || high <= low ? null : line(name, low, high, y));
  return svg("svg", { "aria-hidden": "true", focusable: "false" },
    line("grid-line", 0, limit, "50%"),
    row.share_out === null ? null : line("link", row.share_in, row.share_out, "50%"),
    whisker("outer", row.share_out_low, row.share_out_high, "72%"),
    whisker("whisker", row.share_in_low, row.share_in_high, "28%"),
    row.share_out === null ? null : svg("circle", { class: "outside", cx: at(row.share_out, limit), cy: "50%", r: 4 }),
    svg("circle", { class: "inside", cx: at(row.share_in, limit), cy: "50%", r: 4.5 }));
};

const axis = (limit) =>
  svg("svg", { "aria-hidden": "true", focusable: "false" },
    ticks(limit).map((tick, place) => svg("text", { class: place % 2 ? "odd" : null, x: at(tick, limit), y: "80%", "text-anchor": tick === 0 ? "start" : tick > 0.9 * limit ? "end" : "middle" }, tickName(tick))));

const verdict = (row) => (row.clear ? "clear" : "may be noise");

const chartRow = (row, name, limit, onopen) => {
  const shares = row.share_in !== null;
  const heading = onopen ? el("button", { type: "button", class: "linkish", onclick: () => onopen(row) }, named(name)) : named(name);
  const figures = shares ? `${percent(row.share_in)} vs ${percent(row.share_out)}, ${times(row.lift)}` : "";
  const range = (name, where) => (row[`${name}_high`] > row[`${name}_low`] ? [`${where} ${percentRange(row[`${name}_low`], row[`${name}_high`])}`] : []);
  const interval = [...range("share_in", "Inside"), ...range("share_out", "outside")].join(", ") || null;
  return el("li", { class: `${row.direction}${row.clear ? "" : " unclear"}`, title: interval },
    el("span", { class: "name" }, heading),
    shares ? dumbbell(row, limit) : el("span", { class: "why soft" }, `No share: ${row.note ?? "it is not known"}.`),
    shares ? el("span", { class: "figures" }, figures, row.clear ? null : el("span", { class: "hidden" }, ", may be noise"), row.clear ? "" : " ?") : null);
};

// The end of an axis: all shares fit, and the intervals of clear rows. A long interval of noise may leave the chart.
const largest = (rows) => 1.04 * Math.max(1e-9, ...rows.flatMap((row) =>
  [row.share_in, row.share_out, ...(row.clear ? [row.share_in_high, row.share_out_high] : [])]).filter((value) => value !== null));

// Presence right, absence left; on narrow screens presence first.
const sides = (rows, nameOf, most, onopen, words) => {
  const first = (direction) => {
    const all = rows.filter((row) => row.direction === direction);
    // What is clear comes first; ranks give the order within.
    return [...all.filter((row) => row.clear), ...all.filter((row) => !row.clear)].slice(0, most);
  };
  const shown = { presence: first("presence"), absence: first("absence") };
  const limit = largest([...shown.presence, ...shown.absence]);
  const side = (direction, title) => {
    const some = shown[direction];
    const heading = el("h4", { class: direction }, `${direction === "presence" ? "▲" : "▼"} ${title}`);
    if (!some.length) return el("div", { class: `side ${direction}-side` }, heading, el("p", { class: "soft" }, `No ${words} here.`));
    return el("div", { class: `side ${direction}-side` }, heading,
      el("ul", { class: "rows" },
        el("li", { class: "axis", "aria-hidden": "true" }, el("span"), axis(limit), el("span", {}, "inside vs outside")),
        some.map((row) => chartRow(row, nameOf(row), limit, onopen))));
  };
  const one = shown.presence.length === 0 || shown.absence.length === 0;
  return el("div", { class: one ? "sides one" : "sides" }, side("presence", "More common inside"), side("absence", "Less common inside"));
};

const legend = (exact) =>
  el("p", { class: "legend" },
    el("span", {}, svg("svg", { "aria-hidden": "true" }, svg("circle", { class: "inside", cx: "50%", cy: "50%", r: 4.5 })), "share inside"),
    el("span", {}, svg("svg", { "aria-hidden": "true" }, svg("circle", { class: "outside", cx: "50%", cy: "50%", r: 4 })), "share outside"),
    exact ? null : el("span", {}, svg("svg", { "aria-hidden": "true" }, svg("line", { class: "outer", x1: "5%", x2: "95%", y1: "50%", y2: "50%" })), "95% interval"),
    exact ? null : el("span", {}, "? and pale: may be noise"));

// A feature over ordered labels: its share inside each label, with intervals.
const trend = (rows, meta) => {
  const [width, height, left, bottom, top] = [320, 144, 40, 22, 8];
  const inner = width - left - 8;
  const count = meta.labels.length;
  const known = rows.filter((row) => row.share_in !== null).sort((a, b) => a.label - b.label);
  const limit = largest(known.map((row) => ({ ...row, share_out: null, share_out_high: null })));
  const x = (row) => left + (count < 2 ? inner / 2 : (inner * row.label) / (count - 1));
  const y = (share) => top + (height - top - bottom) * (1 - Math.max(0, Math.min(1, share / limit)));
  const rounded = (value) => value.toFixed(1);
  const lines = [];
  known.forEach((row, place) => {
    const next = known[place + 1];
    // A gap in the line where a label between has no released pair.
    if (next && next.label === row.label + 1) {
      lines.push(svg("line", { class: "line", x1: rounded(x(row)), y1: rounded(y(row.share_in)), x2: rounded(x(next)), y2: rounded(y(next.share_in)) }));
    }
  });
  const shown = [0, count - 1];
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" },
    ticks(limit).map((tick) => [
      svg("line", { class: "grid-line", x1: left, x2: width - 4, y1: rounded(y(tick)), y2: rounded(y(tick)) }),
      svg("text", { x: left - 4, y: rounded(y(tick) + 4), "text-anchor": "end" }, tickName(tick))]),
    known.filter((row) => row.share_in_high > row.share_in_low).map((row) =>
      svg("line", { class: "band", x1: rounded(x(row)), x2: rounded(x(row)), y1: rounded(y(row.share_in_low)), y2: rounded(y(row.share_in_high)) })),
    lines,
    known.map((row) => svg("circle", { class: row.clear ? "point" : "point unclear", cx: rounded(x(row)), cy: rounded(y(row.share_in)), r: 3 })),
    shown.map((label, end) => svg("text", { x: end ? width - 4 : left, y: height - 4, "text-anchor": end ? "end" : "start" }, shortened(meta.labels[label].name, 18))));
};

const shortened = (name, most) => ([...name].length > most ? `${[...name].slice(0, most - 1).join("")}…` : name);

// Cells that a spreadsheet would run as a formula get a leading '.
const FORMULA = /^[\s\u00a0\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/u;
const csvCell = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const safe = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
const csv = (heads, rows) => [heads, ...rows].map((cells) => cells.map(csvCell).join(",")).join("\r\n") + "\r\n";

const download = (name, text) => {
  const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
};
