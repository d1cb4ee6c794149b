// The views of a page: charts by label, charts by feature, all pairs, the map, and the course over ordered labels.

const CARDS = 8;
const PAGE = 100;
const PICKS = 60;
const MAP_ROWS = 30;
const MAP_COLUMNS = 24;
const TRENDS = 12;

// What is seen is kept in the address after #, so that a link leads back to it.
class Place {
  constructor() { this.values = new URLSearchParams(Place.isLink() ? location.hash.slice(1) : ""); }
  // Links to a part of the page, such as #main, say nothing about views.
  static isLink() { return location.hash.includes("="); }
  get(name) { return this.values.get(name) ?? ""; }
  set(changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null || value === false) this.values.delete(name);
      else this.values.set(name, value === true ? "1" : value);
    }
    history.replaceState(null, "", `#${this.values}`);
  }
}

class Explorer {
  constructor(root, source) {
    this.root = root;
    this.source = source;
    this.meta = source.meta;
    this.place = new Place();
    const { label, feature } = this.meta.words;
    this.views = [
      { id: "labels", title: `By ${label}`, make: () => new LabelsView(this) },
      { id: "features", title: `By ${feature}`, make: () => new FeaturesView(this) },
      { id: "pairs", title: "All findings", make: () => new PairsView(this) },
      { id: "map", title: "Map", make: () => new MapView(this) },
      ...(this.meta.scale ? [{ id: "course", title: `Over ${label}`, make: () => new CourseView(this) }] : []),
    ];
    this.build();
    this.open(this.views.some((view) => view.id === this.place.get("view")) ? this.place.get("view") : "labels");
    addEventListener("hashchange", () => this.follow());
  }

  build() {
    const tabs = this.views.map((view) => el("button", {
      type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": `panel-${view.id}`,
      onclick: () => this.open(view.id), onkeydown: (event) => this.move(event, view.id) }, named(view.title)));
    this.tabs = Object.fromEntries(this.views.map((view, place) => [view.id, tabs[place]]));
    this.panels = Object.fromEntries(this.views.map((view) =>
      [view.id, el("div", { role: "tabpanel", id: `panel-${view.id}`, "aria-labelledby": `tab-${view.id}`, hidden: true })]));
    this.root.append(el("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, tabs), ...Object.values(this.panels));
  }

  move(event, id) {
    const ids = this.views.map((view) => view.id);
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -ids.indexOf(id), End: ids.length - 1 - ids.indexOf(id) };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = ids[(ids.indexOf(id) + steps[event.key] + ids.length) % ids.length];
    this.open(next);
    this.tabs[next].focus();
  }

  open(id) {
    this.place.set({ view: id === "labels" ? "" : id });
    for (const view of this.views) {
      const chosen = view.id === id;
      this.tabs[view.id].setAttribute("aria-selected", String(chosen));
      this.tabs[view.id].tabIndex = chosen ? 0 : -1;
      this.panels[view.id].hidden = !chosen;
      if (chosen) this.show(view);
    }
  }

  show(view) {
    if (!view.made) {
      view.made = view.make();
      this.panels[view.id].append(...view.made.nodes);
    }
    view.made.update();
  }

  // Somebody followed a link to another view of this page.
  follow() {
    if (location.hash.length > 1 && !Place.isLink()) return;
    const place = new Place();
    const id = place.get("view") || "labels";
    if (!this.views.some((view) => view.id === id) || String(place.values) === String(this.place.values)) return;
    this.place = place;
    for (const view of this.views) { view.made = null; this.panels[view.id].replaceChildren(); }
    this.open(id);
  }

  go(id, changes) {
    this.place.set(changes);
    const view = this.views.find((one) => one.id === id);
    view.made = null;
    this.panels[id].replaceChildren();
    this.open(id);
    this.tabs[id].focus();
    this.root.scrollIntoView();
  }

  // Write the rows that are seen, with all numbers that the page holds of them.
  save(rows) {
    const { meta } = this;
    const names = ["rank", "direction", "clear", ...meta.numbers, "note"];
    const stamp = meta.notice ? [meta.notice] : [];
    const heads = [...stamp.map(() => "notice"), "feature", "label", ...names];
    download("findings.csv", csv(heads, rows.map((row) => [
      ...stamp, this.featureName(row.feature), this.labelName(row.label), ...names.map((name) => row[name])])));
  }

  labelName(label) { return this.meta.labels[label].name; }
  featureName(feature) { return this.meta.features[feature]; }
  toFeature(row) { this.go("features", { feature: this.featureName(row.feature) }); }
  toLabel(row) { this.go("labels", { label: this.labelName(row.label), find: "" }); }
}

const input = (title, value, onchange, attributes = {}) =>
  el("label", {}, named(title), el("input", { type: "search", value, autocomplete: "off", spellcheck: "false", oninput: (event) => onchange(event.target.value), ...attributes }));

const select = (title, value, options, onchange) =>
  el("label", {}, title, el("select", { onchange: (event) => onchange(event.target.value) },
    options.map(([key, text]) => el("option", { value: key, selected: key === value }, text))));

const check = (title, checked, onchange) =>
  el("label", { class: "check" }, el("input", { type: "checkbox", checked, onchange: (event) => onchange(event.target.checked) }), title);

const saving = (onclick) => el("button", { type: "button", onclick }, "Download CSV");

const status = () => el("p", { class: "status", role: "status" });

const clearOf = (count) => (count ? `${count.toLocaleString("en")} of them clear` : "none of them clear");

class LabelsView {
  constructor(page) {
    this.page = page;
    this.most = CARDS;
    const { place, meta } = page;
    const orders = [...(meta.scale ? [["scale", "their own order"]] : []), ["size", "size"], ["clear", "clear findings"], ["name", "name"]];
    this.standard = orders[0][0];
    this.status = status();
    this.cards = el("div");
    this.more = el("button", { type: "button", class: "more-button", onclick: () => { this.most += CARDS; this.update(); } });
    const change = (changes) => { place.set(changes); this.most = CARDS; this.update(); };
    const many = meta.labels.length > 1;
    const controls = el("div", { class: "controls" },
      many ? input(`Search ${meta.words.labels[1]}`, place.get("label") || place.get("find"), (find) => change({ find, label: "" })) : null,
      many ? select("Order by", place.get("order") || this.standard, orders, (order) => change({ order: order === this.standard ? "" : order })) : null,
      saving(async () => page.save((await this.rows()).flat())));
    this.nodes = [controls, legend(meta.exact), this.status, this.cards, this.more];
  }

  chosen() {
    const { place, meta } = this.page;
    const one = meta.labels.findIndex((label) => label.name === place.get("label"));
    if (one >= 0) return [one];
    const wanted = folded(place.get("find"));
    const found = meta.labels.map((label, at) => at).filter((at) => folded(meta.labels[at].name).includes(wanted));
    const key = { scale: (at) => at, size: (at) => -meta.labels[at].size, clear: (at) => -meta.labels[at].clear, name: (at) => folded(meta.labels[at].name) };
    const by = key[place.get("order")] ?? key[this.standard];
    return found.sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : a - b));
  }

  // The rows of the labels that are seen.
  rows() { return Promise.all(this.chosen().slice(0, this.most).map((label) => this.page.source.ofLabel(label))); }

  async update() {
    const labels = this.chosen();
    const some = labels.slice(0, this.most);
    const rows = await this.rows();
    this.cards.replaceChildren(...some.map((label, place) => this.card(label, rows[place])));
    const words = this.page.meta.words.labels;
    this.status.textContent = labels.length === 0 ? `No ${words[0]} has this name.` : `${some.length.toLocaleString("en")} of ${plural(labels.length, ...words)} shown.`;
    this.more.hidden = some.length === labels.length;
    this.more.textContent = `Show ${Math.min(CARDS, labels.length - some.length)} more`;
  }

  card(label, rows, most = this.page.meta.top) {
    const { meta } = this.page;
    const found = meta.labels[label];
    const unknown = rows.length > 0 && rows.every((row) => row.share_in === null);
    const reason = rows.length > 0 && rows.every((row) => row.note === rows[0].note) ? rows[0].note : null;
    const body = unknown ? el("p", { class: "note" }, `No shares: ${reason ?? "they are not known"}.`) : sides(rows, (row) => this.page.featureName(row.feature), most, (row) => this.page.toFeature(row), meta.words.feature);
    const held = rows.length < found.pairs ? `${rows.length.toLocaleString("en")} of ${plural(found.pairs, "finding")} in this page` : plural(rows.length, "finding");
    const card = el("article", { class: "card" },
      el("h3", {}, named(found.name)),
      el("p", { class: "soft" }, meta.exact ? `${held}.` : `${held}, ${clearOf(found.clear)}.`),
      reason && !unknown ? el("p", { class: "note" }, `No shares outside: ${reason}.`) : null,
      body);
    const longest = Math.max(...["presence", "absence"].map((direction) => rows.filter((row) => row.direction === direction).length), 0);
    if (longest > most && !unknown) {
      card.append(el("button", { type: "button", class: "more-button", onclick: () => {
        const longer = this.card(label, rows, Math.max(most * 4, 40));
        card.replaceWith(longer);
        (longer.querySelector(".more-button") ?? longer.querySelector(".linkish"))?.focus();
      } }, "Show more of ", named(found.name)));
    }
    return card;
  }
}

class FeaturesView {
  constructor(page) {
    this.page = page;
    const { place, meta } = page;
    this.status = status();
    this.list = el("ul", { class: "picks" });
    this.chart = el("div", { "aria-live": "polite" });
    this.text = "";
    this.feature = -1;
    this.nodes = [
      el("div", { class: "controls" }, input(`Search ${meta.words.features[1]}`, "", (text) => { this.text = text; this.update(true); }),
        saving(async () => page.save(this.feature < 0 ? [] : await page.source.ofFeature(this.feature)))),
      legend(meta.exact), this.status,
      el("div", { class: "two" }, this.list, this.chart)];
  }

  async update(first = false) {
    const { place, source, meta } = this.page;
    const found = await source.findFeatures(this.text, PICKS);
    const words = meta.words.features;
    this.status.textContent = found.count === 0 ? `No ${words[0]} has this name.`
      : `${Math.min(PICKS, found.count).toLocaleString("en")} of ${plural(found.count, ...words)} listed, those with most clear findings first.`;
    let chosen = meta.features.indexOf(place.get("feature"));
    if (chosen < 0 || (first && !found.features.some((one) => one.feature === chosen))) chosen = found.features[0]?.feature ?? -1;
    this.list.replaceChildren(...found.features.map((one) => el("li", {},
      el("button", { type: "button", "aria-pressed": String(one.feature === chosen), onclick: (event) => this.choose(one.feature, event.currentTarget) },
        named(this.page.featureName(one.feature)), el("span", { class: "soft" }, `${one.clear} clear`)))));
    await this.draw(chosen);
  }

  async choose(feature, button) {
    this.page.place.set({ feature: this.page.featureName(feature) });
    for (const other of this.list.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
    await this.draw(feature);
  }

  async draw(feature) {
    this.feature = feature;
    if (feature < 0) { this.chart.replaceChildren(); return; }
    const { source, meta } = this.page;
    const rows = await source.ofFeature(feature);
    const clear = rows.filter((row) => row.clear).length;
    this.chart.replaceChildren(
      el("h3", {}, named(this.page.featureName(feature))),
      el("p", { class: "soft" }, `${plural(rows.length, ...meta.words.labels)} in this page${meta.exact ? "" : `, ${clearOf(clear)}`}.`),
      sides(rows, (row) => this.page.labelName(row.label), 40, (row) => this.page.toLabel(row), meta.words.label));
  }
}

const classOf = (column) => [column.text ? "text" : "", column.more ? "more" : "", column.kind ?? ""].filter(Boolean).join(" ") || null;

class PairsView {
  constructor(page) {
    this.page = page;
    this.from = 0;
    const { place, meta } = page;
    const change = (changes) => { place.set(changes); this.from = 0; this.update(); };
    this.status = status();
    this.body = el("tbody");
    this.heads = this.columns().map((column) => ({ column, cell: el("th", { scope: "col", class: classOf(column) },
      el("button", { type: "button", onclick: () => change(this.sorted(column)) }, named(column.title), el("span", { "aria-hidden": "true" }))) }));
    this.before = el("button", { type: "button", onclick: () => this.turn(-PAGE) }, "Earlier rows");
    this.after = el("button", { type: "button", onclick: () => this.turn(PAGE) }, "Later rows");
    this.caption = el("caption", {}, el("span", { class: "hidden" }, "Findings; buttons in the head sort"));
    this.nodes = [
      el("div", { class: "controls" },
        input(`${meta.words.feature} contains`, place.get("has"), (has) => change({ has })),
        input(`${meta.words.label} contains`, place.get("in"), (text) => change({ in: text })),
        select("Direction", place.get("direction"), [["", "both"], ["presence", "more common"], ["absence", "less common"]], (direction) => change({ direction })),
        check("Only clear findings", place.get("clear") === "1", (clear) => change({ clear })),
        saving(async () => page.save(await page.source.find(this.question())))),
      this.status,
      el("div", { class: "wide", role: "region", "aria-label": "All findings", tabindex: "0" },
        el("table", { class: "pairs" }, this.caption, el("thead", {}, el("tr", {}, this.heads.map((head) => head.cell))), this.body)),
      el("p", { class: "controls" }, this.before, this.after)];
  }

  columns() {
    const { meta } = this.page;
    const small = (text) => (text && !meta.exact ? el("small", {}, text) : null);
    return [
      { key: "rank", title: "Rank", more: true, cell: (row) => row.rank.toLocaleString("en") },
      { key: "feature", title: meta.words.feature, text: true, head: true, cell: (row) => named(this.page.featureName(row.feature)) },
      { key: "label", title: meta.words.label, text: true, cell: (row) => named(this.page.labelName(row.label)) },
      { key: "share_in", title: "Inside", kind: "figure", down: true, cell: (row) => [percent(row.share_in), small(percentRange(row.share_in_low, row.share_in_high))] },
      { key: "share_out", title: "Outside", kind: "figure", down: true, cell: (row) => [percent(row.share_out), small(percentRange(row.share_out_low, row.share_out_high))] },
      { key: "lift", title: "Times", kind: "times", down: true, cell: (row) => [
        el("span", { class: row.direction }, row.direction === "presence" ? "▲" : "▼"), el("span", { class: "hidden" }, row.direction), ` ${times(row.lift)}`,
        row.clear ? null : el("span", { class: "narrow" }, " ?")] },
      { key: "clear", title: "Verdict", text: true, more: true, down: true, cell: (row) => verdict(row) },
      ...(meta.score ? [{ key: "score", title: meta.score, more: true, down: true, cell: (row) => compact(row.score) }] : []),
      { key: "mi", title: `MI (${meta.unit_of_mi})`, more: true, down: true, cell: (row) => [compact(row.mi), small(`${compact(row.mi_low)} to ${compact(row.mi_high)}`)] },
    ];
  }

  question() {
    const { place } = this.page;
    return { feature: place.get("has"), label: place.get("in"), direction: place.get("direction"), clear: place.get("clear") === "1",
      sort: place.get("sort") || "rank", down: place.get("down") === "1" };
  }

  sorted(column) {
    const { sort, down } = this.question();
    const first = Boolean(column.down);
    const next = sort === column.key ? !down : first;
    return { sort: column.key === "rank" && !next ? "" : column.key, down: next };
  }

  async turn(step) {
    this.from = Math.max(0, this.from + step);
    await this.update();
    this.nodes[0].scrollIntoView();
  }

  async update() {
    const question = this.question();
    const rows = await this.page.source.find(question);
    const some = rows.slice(this.from, this.from + PAGE);
    for (const { column, cell } of this.heads) {
      const chosen = column.key === question.sort;
      if (chosen) cell.setAttribute("aria-sort", question.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
      cell.querySelector("span").textContent = chosen ? (question.down ? " ↓" : " ↑") : "";
    }
    this.body.replaceChildren(...some.map((row) => this.row(row)));
    const { meta } = this.page;
    const all = meta.pairs > meta.held ? ` The page holds ${meta.held.toLocaleString("en")} of ${plural(meta.pairs, "released pair")}.` : "";
    this.status.textContent = rows.length === 0 ? `No finding meets this.${all}`
      : `Rows ${(this.from + 1).toLocaleString("en")} to ${(this.from + some.length).toLocaleString("en")} of ${rows.length.toLocaleString("en")}.${all}`;
    this.before.hidden = this.from === 0;
    this.after.hidden = this.from + PAGE >= rows.length;
  }

  row(row) {
    return el("tr", { class: row.clear ? "" : "unclear", title: row.note }, this.heads.map(({ column }) =>
      el(column.head ? "th" : "td", { scope: column.head ? "row" : null, class: classOf(column) }, column.cell(row))));
  }
}

// How far a lift lies from 1, in steps of colour.
const shade = (row) => {
  const far = Math.abs(Math.log2(Math.max(row.lift ?? 1, 1e-9)));
  const step = far >= 2 ? 4 : far >= 1 ? 3 : far >= 0.4 ? 2 : 1;
  return `${row.direction === "presence" ? "p" : "a"}${step}`;
};

class MapView {
  constructor(page) {
    this.page = page;
    this.body = el("div");
    const { meta } = page;
    const key = (name, text) => el("span", {}, el("i", { class: name, "aria-hidden": "true" }), text);
    this.nodes = [
      el("p", { class: "soft" }, `How many times as common as overall. The ${meta.words.features[1]} with most clear findings, in the largest ${meta.words.labels[1]}. Pale italics may be noise; a dot was not released or is not in this page.`),
      el("p", { class: "legend key" }, key("a4", "at most ¼×"), key("a3", "½×"), key("a2", "¾×"), key("a1", "below 1×"), key("p1", "above 1×"), key("p2", "1.3×"), key("p3", "2×"), key("p4", "4× and more")),
      this.body];
  }

  async update() {
    if (this.body.childElementCount) return;
    const { source, meta } = this.page;
    const { features } = await source.findFeatures("", MAP_ROWS);
    const labels = meta.labels.map((_, at) => at).sort((a, b) => meta.labels[b].size - meta.labels[a].size).slice(0, MAP_COLUMNS);
    if (meta.scale) labels.sort((a, b) => a - b);
    const rows = await Promise.all(features.map(({ feature }) => source.ofFeature(feature)));
    const line = (feature, found) => {
      const by = new Map(found.map((row) => [row.label, row]));
      return el("tr", {}, el("th", { scope: "row" }, named(this.page.featureName(feature))),
        labels.map((label) => {
          const row = by.get(label);
          if (!row || row.lift === null) return el("td", { class: "none" }, el("span", { "aria-hidden": "true" }, "·"), el("span", { class: "hidden" }, "not shown"));
          return el("td", { class: row.clear ? shade(row) : "unclear" }, times(row.lift), row.clear ? null : el("span", { class: "hidden" }, ", may be noise"));
        }));
    };
    const left = [meta.features.length - features.length, meta.labels.length - labels.length];
    const cut = [left[0] > 0 ? plural(left[0], ...meta.words.features) : "", left[1] > 0 ? plural(left[1], ...meta.words.labels) : ""].filter(Boolean);
    this.body.replaceChildren(
      el("div", { class: "wide", role: "region", "aria-label": "Map", tabindex: "0" },
        el("table", { class: "map" },
          el("caption", {}, cut.length ? `Not on the map: ${cut.join(" and ")}.` : "All are on the map."),
          el("thead", {}, el("tr", {}, el("td"), labels.map((label) => el("th", { scope: "col" }, named(this.page.labelName(label)))))),
          el("tbody", {}, features.map(({ feature }, place) => line(feature, rows[place]))))));
  }
}

class CourseView {
  constructor(page) {
    this.page = page;
    this.text = "";
    this.status = status();
    this.body = el("div", { class: "trends" });
    const { meta } = page;
    this.nodes = [
      el("p", { class: "soft" }, `The share of each ${meta.words.feature} inside each ${meta.words.label}, in their own order. Bars are 95% intervals; hollow points may be noise.`),
      el("div", { class: "controls" }, input(`Search ${meta.words.features[1]}`, "", (text) => { this.text = text; this.update(); })),
      this.status, this.body];
  }

  async update() {
    const { source, meta } = this.page;
    const { count, features } = await source.findFeatures(this.text, TRENDS);
    const rows = await Promise.all(features.map(({ feature }) => source.ofFeature(feature)));
    const words = meta.words.features;
    this.status.textContent = count === 0 ? `No ${words[0]} has this name.` : `${features.length} of ${plural(count, ...words)} drawn, those with most clear findings first.`;
    this.body.replaceChildren(...features.map(({ feature }, place) => el("article", { class: "trend" },
      el("h3", {}, named(this.page.featureName(feature))),
      trend(rows[place], meta),
      el("p", { class: "soft" }, this.inWords(rows[place])))));
  }

  inWords(rows) {
    const known = rows.filter((row) => row.share_in !== null).sort((a, b) => a.label - b.label);
    if (!known.length) return "No share is known.";
    const [first, last] = [known[0], known[known.length - 1]];
    const apart = first.share_in_high < last.share_in_low ? "rises" : last.share_in_high < first.share_in_low ? "falls" : "differs by no more than the noise";
    const ends = `${percent(first.share_in)} in ${this.page.labelName(first.label)}, ${percent(last.share_in)} in ${this.page.labelName(last.label)}`;
    return first === last ? `${percent(first.share_in)} in ${this.page.labelName(first.label)}.` : `${ends}: ${apart}.`;
  }
}
