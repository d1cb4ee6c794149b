"""Sentences: what a page says in words, as HTML: the question, the findings, what was hidden, and what is promised.

Ranking, Content, receipt -> HTML in which every name is escaped and isolated
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ddpmi.information.scores import TITLES
from ddpmi.reports.content import cut, hidden_share
from ddpmi.text import escape_html

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddpmi.rankings.ranking import Ranking
    from ddpmi.releases.words import Words
    from ddpmi.reports.content import Content

_TELLING_LABELS, _TELLING_EACH = 5, 2
_MOST_DIGITS = 6
_UNNAMED = "default"
_CLEAR = (
    "<b>Clear</b> means that the direction is not an effect of the noise. Of all clear findings of this release, at most"
    " about 5% point the wrong way. All others <b>may be noise</b>: they are pale and carry a question mark."
)
_INTERVALS = "Intervals are 95% intervals. They cover the noise that protects people, and nothing else."


def name(text: str) -> str:
    """Escape a name and isolate its reading direction from the text around it.

    >>> name("<b>")
    '<bdi>&lt;b&gt;</bdi>'
    """
    return f"<bdi>{escape_html(cut(text))}</bdi>"


def percent(share: float) -> str:
    """Write a share with about two significant digits.

    >>> percent(0.2134), percent(0.0345), percent(0.00123), percent(1.0), percent(0.0), percent(0.9996)
    ('21%', '3.5%', '0.12%', '100%', '0%', '100%')
    """
    value = 100 * share
    if value >= 99.95 or value == 0:  # noqa: PLR2004
        digits = 0
    elif value > 99:  # noqa: PLR2004
        digits = 1
    else:
        digits = min(_MOST_DIGITS, max(0, 1 - math.floor(math.log10(abs(value)))))
    return f"{value:.{digits}f}%"


def percent_range(low: float, high: float) -> str:
    """Write an interval of shares with the digits that its width deserves.

    >>> percent_range(0.2012, 0.2231), percent_range(0.14561, 0.14632), percent_range(0.5, 0.5)
    ('20% to 22%', '14.56% to 14.63%', '50% to 50%')
    """
    width = 100 * (high - low)
    if width <= 0:
        return f"{percent(low)} to {percent(high)}"
    digits = min(_MOST_DIGITS, max(0, math.ceil(-math.log10(width))))
    if 10**-digits >= width:
        digits = min(_MOST_DIGITS, digits + 1)
    return f"{100 * low:.{digits}f}% to {100 * high:.{digits}f}%"


def times(lift: float) -> str:
    """Write a lift in words.

    >>> times(1.42), times(24.87), times(0.53), times(1.034)
    ('1.4 times', '25 times', '0.53 times', '1.03 times')
    """
    if lift >= 10 or lift == 0:  # noqa: PLR2004
        return f"{lift:,.0f} times"
    if 0.9 <= lift < 1.1:  # noqa: PLR2004
        return f"{lift:.2f} times"
    return f"{lift:.1f} times" if lift >= 1 else f"{lift:.2g} times"


def group(words: Words) -> str:
    """Name what is set apart: each label, or the units with the seed where labels were made by a seed.

    >>> from ddpmi.releases.words import Words
    >>> group(Words(label="country")), group(Words(unit="visitor_id", seed="seed"))
    ('each country', 'visitors with the seed')
    """
    return f"each {words.label}" if words.seed is None else f"{words.units} with the seed"


def question(ranking: Ranking) -> str:
    """Say what was asked, in the names of the data's own columns."""
    words = ranking.words
    source = "" if ranking.dataset == _UNNAMED else f" Data: {name(ranking.dataset)}."
    what = f"Which {name(words.feature)} is more or less common inside {name(group(words))} than outside?"
    return f'<p class="lead">{what} Shares are of {name(words.counted)}.{source}</p>'


def figures(content: Content) -> str:
    """Say how much was found and how much of it is clear."""
    ranking = content.ranking
    if not len(ranking):
        return '<p class="note">No pair was released: no sum reached the threshold.</p>'
    pairs, labels = _counted(len(ranking), "finding"), _labels(content)
    if not ranking.private:
        return f"<p>{pairs} of {labels}, computed from exact sums.</p>{_cut(content)}"
    clear = content.clear
    if clear:
        said = f"<p><strong>{clear:,} of {pairs} {'is' if clear == 1 else 'are'} clear</strong> of the noise, over {labels}.</p>"
    else:
        said = (
            f'<p class="note"><strong>Nothing here is certain.</strong> None of {pairs} over {labels} is clear of the noise:'
            " each may as well point the other way.</p>"
        )
    return said + _cut(content)


def _labels(content: Content) -> str:
    count, words = content.all_labels, content.ranking.words
    return f"{count:,} {name(words.label if count == 1 else words.labels)}"


def _cut(content: Content) -> str:
    """Say what the page leaves out; empty where it holds everything."""
    ranking = content.ranking
    if len(content.rows) == len(ranking):
        return ""
    labels = content.all_labels - len(content.labels)
    fewer = f" and leaves out the {labels:,} smallest {name(ranking.words.labels)}" if labels else ""
    return (
        f'<p class="note">To stay small, this page holds {len(content.rows):,} of {len(ranking):,} findings: those of best'
        f" rank for each {name(ranking.words.label)}{fewer}. <code>ddpmi rank</code> writes all of them.</p>"
    )


def telling(content: Content) -> str:
    """Write the best clear findings of the largest labels as sentences."""
    found = content.telling(_TELLING_LABELS, _TELLING_EACH)
    if not found:
        known = "No clear finding has shares that are known" if content.clear else "No finding is clear of the noise"
        return f"<p>{known}, so none is put into a sentence. The charts below show all of them.</p>"
    items = "".join(f"<li>{_finding(row, exact=not content.ranking.private)}</li>" for _, rows in found for row in rows)
    words = content.ranking.words
    where = f"the largest {name(words.labels)}" if len(found) > 1 else f"one {name(words.label)}"
    clear = "clear " if content.ranking.private else ""
    return f'<p class="soft">The first {clear}findings of {where}.</p><ul class="telling">{items}</ul>'


def _finding(row: Mapping[str, Any], *, exact: bool) -> str:
    kind = "more" if row["direction"] == "presence" else "less"
    sides = []
    for key, where in (("share_in", ""), ("share_out", " elsewhere")):
        interval = "" if exact else f" ({percent_range(row[f'{key}_low'], row[f'{key}_high'])})"
        sides.append(f"{percent(row[key])}{where}{interval}")
    lift = "" if row["lift"] is None else f", {times(row['lift'])} the overall share"
    return (
        f"<strong>{name(row['label'])}</strong>: {name(row['feature'])} is"
        f' <span class="{row["direction"]}">{kind} common</span>, {sides[0]} against {sides[1]}{lift}.'
    )


def about(ranking: Ranking) -> str:
    """Explain how to read the page, what was hidden, what is promised, and how the release was made."""
    # Sums that were not read from a release have no whole receipt.
    receipt = ranking.receipt if ranking.receipt is not None and "release_id" in ranking.receipt else None
    sections = [("How to read this page", _reading(ranking))]
    if receipt is not None and ranking.private:
        sections.append(("What was hidden", _hidden(ranking, receipt)))
    sections.append(("What is promised", _promised(ranking)))
    if receipt is not None:
        sections.append(("Receipt", _receipt(receipt)))
    return "\n".join(f'<section class="about">\n<h2>{head}</h2>\n{body}\n</section>' for head, body in sections)


def _reading(ranking: Ranking) -> str:
    words = ranking.words
    feature, label = name(words.feature), name(words.label)
    shares = (
        f"<b>Inside</b> is the share of the {feature} inside the {label}; <b>outside</b> is its share in all the rest."
    )
    mi = f"<b>mutual information</b> (MI, in {escape_html(ranking.unit_of_mi)}): how much the {feature} tells about the {label}"
    order = f"Rows are in the order of {mi}."
    if ranking.scored_by is not None:
        order = f"Rows are in the order of {escape_html(TITLES[ranking.scored_by])}: a score, not a test; it carries no p-value."
    items = [
        f"{shares} Shares are of {name(words.counted)}.",
        "<b>Times</b> is the share inside divided by the share overall. Above 1 is presence (▲), below 1 is absence (▼).",
        order,
        escape_html(ranking.order_in_words),
        *((_CLEAR, _INTERVALS, escape_html(ranking.bounding_note)) if ranking.private else ()),
    ]
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items if item)}</ul>"


def _hidden(ranking: Ranking, receipt: Mapping[str, Any]) -> str:
    threshold = receipt["tables"]["pairs"]["threshold"]
    complete = (receipt.get("plan") or {}).get("complete")
    if threshold is None:
        said = "Every pair of the declared features and labels is here. None was hidden."
    elif complete:
        said = (
            "A feature or a label appears only if one of its pairs has a noisy sum that reaches a threshold. All pairs of the"
            " features and labels that appear are here."
        )
    else:
        said = (
            "A pair appears only if its noisy sum reaches a threshold. Rare pairs are left out, because their presence could"
            " reveal a person."
        )
    share = hidden_share(ranking, receipt)
    mass = (
        "The number of hidden pairs is not known, and would not be told."
        if share is None
        else f"By the noisy sums, what was left out holds about {percent(share)} of the sum of everything. The number of hidden"
        " pairs is not known, and would not be told."
    )
    return f"<p>{said}</p>" if threshold is None else f"<p>{said}</p><p>{mass}</p>"


def _promised(ranking: Ranking) -> str:
    guarantee = ranking.guarantee
    if not ranking.private or guarantee is None:
        return f"<p>{escape_html(ranking.promise)}</p>"
    epsilon, delta = float(guarantee["epsilon"]), float(guarantee["delta"])
    unit = name(ranking.words.unit)
    factor = math.exp(epsilon) if epsilon < 50 else math.inf  # noqa: PLR2004
    times_ = f"{factor:,.3g}" if factor < 1e6 else f"e^{epsilon:g}"  # noqa: PLR2004
    return (
        f"<p>Everything here would look nearly the same if all rows of any one {unit} had been left out. Nobody can tell from"
        f" it with confidence whether that {unit} was in the data.</p>"
        f"<p>Precisely: with or without one {unit}, no result becomes more than {times_} times as likely (epsilon {epsilon:g}),"
        f" but for a probability of {delta:g} (delta). This holds for whoever reads it, and for everything that is computed from it.</p>"
    )


def _receipt(receipt: Mapping[str, Any]) -> str:
    from ddpmi.releases.receipts import describe

    text = "\n".join(escape_html(line) for line in describe(receipt).rstrip("\n").split("\n"))
    return f'<pre tabindex="0" aria-label="Receipt">{text}</pre>'


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
