// Where the page's rows come from. A row has the names of the columns of a ranking; feature and label are positions
// in `meta.features` and `meta.labels`. All answers are promises, so that a server can give them too.

const order = (values, key, down) => {
  const sign = down ? -1 : 1;
  const missing = (value) => value === null || value === undefined;
  return values.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (missing(x) || missing(y)) return missing(x) - missing(y);
    return x < y ? -sign : x > y ? sign : a.rank - b.rank;
  });
};

const folded = (text) => text.normalize("NFKC").toLocaleLowerCase("en");

class HeldRows {
  constructor(data) {
    this.meta = data.meta;
    const names = Object.keys(data.rows);
    this.rows = data.rows.rank.map((_, at) => {
      const row = Object.fromEntries(names.map((name) => [name, data.rows[name][at]]));
      row.clear = row.clear === 1;
      row.direction = row.direction === 1 ? "presence" : "absence";
      row.note = row.note === null ? null : this.meta.notes[row.note];
      return row;
    });
    this.byLabel = this.group("label", this.meta.labels.length);
    this.byFeature = this.group("feature", this.meta.features.length);
    this.foldedFeatures = this.meta.features.map(folded);
    this.foldedLabels = this.meta.labels.map((label) => folded(label.name));
  }

  group(key, count) {
    const groups = Array.from({ length: count }, () => []);
    for (const row of this.rows) groups[row[key]].push(row);
    for (const group of groups) group.sort((a, b) => a.rank - b.rank);
    return groups;
  }

  async ofLabel(label) { return this.byLabel[label]; }

  async ofFeature(feature) { return this.byFeature[feature]; }

  // Features whose name holds a text: those with most clear findings first.
  async findFeatures(text, most) {
    const wanted = folded(text);
    const found = [];
    this.foldedFeatures.forEach((name, feature) => {
      if (!name.includes(wanted)) return;
      const rows = this.byFeature[feature];
      found.push({ feature, clear: rows.filter((row) => row.clear).length, pairs: rows.length, rank: rows[0].rank });
    });
    found.sort((a, b) => b.clear - a.clear || a.rank - b.rank);
    return { count: found.length, features: found.slice(0, most) };
  }

  // Rows that meet a question: {feature, label, direction, clear, sort, down}.
  async find(question) {
    const feature = folded(question.feature ?? "");
    const label = folded(question.label ?? "");
    const found = this.rows.filter((row) =>
      this.foldedFeatures[row.feature].includes(feature) && this.foldedLabels[row.label].includes(label) &&
      (!question.direction || row.direction === question.direction) && (!question.clear || row.clear));
    const name = { feature: (row) => this.foldedFeatures[row.feature], label: (row) => row.label };
    return order(found, name[question.sort] ?? ((row) => row[question.sort]), question.down);
  }
}
