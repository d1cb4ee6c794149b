-- values
-- pairs : (unit, feature, label, v)
SELECT unit, feature, label, CAST(LEAST(SUM(q), 10) AS BIGINT) AS v
FROM (SELECT unit, feature, label, CASE WHEN CAST(value AS DOUBLE) <> CAST('NaN' AS DOUBLE) THEN CAST(FLOOR(LEAST(GREATEST(CAST(value AS DOUBLE), CAST(0.00000000000000000e+00 AS DOUBLE)), CAST(5.00000000000000000e+00 AS DOUBLE)) / CAST(5.00000000000000000e-01 AS DOUBLE) + CAST(5.00000000000000000e-01 AS DOUBLE)) AS BIGINT) END AS q FROM rows) AS quantised
GROUP BY unit, feature, label
HAVING SUM(q) > 0

-- unit_labels : (unit, label, t, s, ss), t pairs of the unit under the label
SELECT unit, label, COUNT(*) AS t, SUM(v) AS s, SUM(v * v) AS ss FROM pairs GROUP BY unit, label

-- units : (unit, labels, t, s, ss, light)
SELECT *, labels <= 2 AND t <= 30 AS light
FROM (SELECT unit, COUNT(*) AS labels, SUM(t) AS t, SUM(s) AS s, SUM(ss) AS ss FROM unit_labels GROUP BY unit) AS u

-- kept_labels : (unit, label), at most `labels` of each unit that is beyond a cap
SELECT unit, label
FROM (SELECT p.unit, p.label, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':label' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.label AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.label AS VARCHAR), 256), CAST(p.label AS VARCHAR)) AS n
      FROM unit_labels AS p JOIN units AS u ON p.unit = u.unit WHERE NOT u.light) AS ordered
WHERE n <= 2

-- kept_pairs : (unit, feature, label, v), at most `cap` of each such unit
SELECT unit, feature, label, v
FROM (SELECT p.*, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':pair' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.feature AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.feature AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.label AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.label AS VARCHAR), 256), CAST(p.feature AS VARCHAR), CAST(p.label AS VARCHAR)) AS n
      FROM pairs AS p JOIN kept_labels AS k ON p.unit = k.unit AND p.label = k.label) AS ordered
WHERE n <= 30

-- bounded : (unit, feature, label, x)
SELECT p.unit, feature, label, v * w AS x
FROM pairs AS p JOIN (SELECT unit, CAST(CASE WHEN ss <= 300 AND s <= 60 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+07 AS DOUBLE) / ss), CAST(1.53600000000000000e+04 AS DOUBLE) / s) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a ON p.unit = a.unit
UNION ALL
SELECT p.unit, feature, label, v * w AS x
FROM kept_pairs AS p JOIN (
  SELECT unit, CAST(CASE WHEN ss <= 300 AND s <= 60 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+07 AS DOUBLE) / ss), CAST(1.53600000000000000e+04 AS DOUBLE) / s) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t, SUM(v) AS s, SUM(v * v) AS ss FROM kept_pairs GROUP BY unit) AS k
) AS b ON p.unit = b.unit

-- joint : (feature, label, sum)
SELECT CAST(feature AS VARCHAR) AS feature, CAST(label AS VARCHAR) AS label, CAST(GREATEST(LEAST(total, 2305843009213693952), -2305843009213693952) AS BIGINT) AS sum
FROM (SELECT feature, label, SUM(x) AS total FROM bounded GROUP BY feature, label) AS grouped

-- laplace
-- pairs : (unit, feature, label)
SELECT DISTINCT unit, feature, label FROM rows

-- unit_labels : (unit, label, t), t pairs of the unit under the label
SELECT unit, label, COUNT(*) AS t FROM pairs GROUP BY unit, label

-- units : (unit, labels, t, light)
SELECT *, labels <= 1 AND t <= 30 AS light
FROM (SELECT unit, COUNT(*) AS labels, SUM(t) AS t FROM unit_labels GROUP BY unit) AS u

-- kept_labels : (unit, label), at most `labels` of each unit that is beyond a cap
SELECT unit, label
FROM (SELECT p.unit, p.label, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':label' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.label AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.label AS VARCHAR), 256), CAST(p.label AS VARCHAR)) AS n
      FROM unit_labels AS p JOIN units AS u ON p.unit = u.unit WHERE NOT u.light) AS ordered
WHERE n <= 1

-- kept_pairs : (unit, feature, label), at most `cap` of each such unit
SELECT unit, feature, label
FROM (SELECT p.*, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':pair' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.feature AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.feature AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.label AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.label AS VARCHAR), 256), CAST(p.feature AS VARCHAR), CAST(p.label AS VARCHAR)) AS n
      FROM pairs AS p JOIN kept_labels AS k ON p.unit = k.unit AND p.label = k.label) AS ordered
WHERE n <= 30

-- bounded : (unit, feature, label, x)
SELECT p.unit, feature, label, w AS x
FROM pairs AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 THEN 256 ELSE FLOOR(CAST(7.68000000000000000e+02 AS DOUBLE) / t * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a ON p.unit = a.unit
UNION ALL
SELECT p.unit, feature, label, w AS x
FROM kept_pairs AS p JOIN (
  SELECT unit, CAST(CASE WHEN t <= 3 THEN 256 ELSE FLOOR(CAST(7.68000000000000000e+02 AS DOUBLE) / t * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k
) AS b ON p.unit = b.unit

-- joint : (feature, label, sum)
SELECT CAST(feature AS VARCHAR) AS feature, CAST(label AS VARCHAR) AS label, CAST(GREATEST(LEAST(total, 2305843009213693952), -2305843009213693952) AS BIGINT) AS sum
FROM (SELECT feature, label, SUM(x) AS total FROM (SELECT feature, CASE WHEN CAST(label AS VARCHAR) IN (HEX_DECODE_STRING('615c62'), HEX_DECODE_STRING('69742773')) THEN label END AS label, x FROM bounded) AS relabelled GROUP BY feature, label) AS grouped

-- label_units : (label, sum)
SELECT CAST(label AS VARCHAR) AS label, SUM(w) AS sum FROM (
  SELECT p.label, w FROM unit_labels AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 THEN 256 ELSE FLOOR(CAST(7.68000000000000000e+02 AS DOUBLE) / t * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a ON p.unit = a.unit
  UNION ALL SELECT p.label, w FROM (SELECT DISTINCT unit, label FROM kept_pairs) AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 THEN 256 ELSE FLOOR(CAST(7.68000000000000000e+02 AS DOUBLE) / t * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k) AS b ON p.unit = b.unit
) AS once GROUP BY label

-- all_units : (sum)
SELECT SUM(w) AS sum FROM (SELECT w FROM (SELECT unit, CAST(CASE WHEN t <= 3 THEN 256 ELSE FLOOR(CAST(7.68000000000000000e+02 AS DOUBLE) / t * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a
  UNION ALL SELECT w FROM (SELECT unit, CAST(CASE WHEN t <= 3 THEN 256 ELSE FLOOR(CAST(7.68000000000000000e+02 AS DOUBLE) / t * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k) AS b) AS w

-- sips
-- coins : (unit), the sampled units
SELECT unit FROM (SELECT DISTINCT unit FROM rows) AS everybody WHERE SUBSTR(SHA2((SELECT salt FROM secret) || ':coin' || ':' || CAST(LENGTH(CAST(unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(unit AS VARCHAR), 256), 1, 16) < '8000000000000000'

-- sampled : as rows, of sampled units
SELECT * FROM rows WHERE unit IN (SELECT unit FROM coins)

-- unit_features : (unit, feature)
SELECT DISTINCT unit, feature FROM sampled

-- feature_counts_1 : (unit, t), t features of the unit
SELECT unit, COUNT(*) AS t FROM unit_features GROUP BY unit

-- kept_features_1 : (unit, feature), `cap` features of each unit that has more
SELECT unit, feature
FROM (SELECT p.unit, p.feature, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':feature' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.feature AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.feature AS VARCHAR), 256), CAST(p.feature AS VARCHAR)) AS n
      FROM unit_features AS p JOIN feature_counts_1 AS u ON p.unit = u.unit WHERE u.t > 30) AS ordered
WHERE n <= 30

-- weights_1 : (feature, sum), what noise is added to; features that reach the threshold are released, sums are not
SELECT CAST(feature AS VARCHAR) AS feature, CAST(GREATEST(LEAST(total, 2305843009213693952), -2305843009213693952) AS BIGINT) AS sum
FROM (SELECT feature, SUM(w) AS total FROM (
  SELECT p.feature, CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) - CASE WHEN u.t * CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) * CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) > 4294967296 THEN 1 WHEN u.t * (CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) + 1) * (CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) + 1) <= 4294967296 THEN -1 ELSE 0 END AS w
  FROM unit_features AS p JOIN feature_counts_1 AS u ON p.unit = u.unit WHERE u.t <= 30
  UNION ALL SELECT feature, 11965 AS w FROM kept_features_1
) AS weighted GROUP BY feature) AS grouped

-- candidates_2 : (unit, feature), not released before
SELECT unit, feature FROM unit_features WHERE CAST(feature AS VARCHAR) NOT IN (SELECT feature FROM released_1)

-- feature_counts_2 : (unit, t), t features of the unit
SELECT unit, COUNT(*) AS t FROM candidates_2 GROUP BY unit

-- kept_features_2 : (unit, feature), `cap` features of each unit that has more
SELECT unit, feature
FROM (SELECT p.unit, p.feature, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':feature' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.feature AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.feature AS VARCHAR), 256), CAST(p.feature AS VARCHAR)) AS n
      FROM candidates_2 AS p JOIN feature_counts_2 AS u ON p.unit = u.unit WHERE u.t > 30) AS ordered
WHERE n <= 30

-- weights_2 : (feature, sum), what noise is added to; features that reach the threshold are released, sums are not
SELECT CAST(feature AS VARCHAR) AS feature, CAST(GREATEST(LEAST(total, 2305843009213693952), -2305843009213693952) AS BIGINT) AS sum
FROM (SELECT feature, SUM(w) AS total FROM (
  SELECT p.feature, CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) - CASE WHEN u.t * CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) * CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) > 4294967296 THEN 1 WHEN u.t * (CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) + 1) * (CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) + 1) <= 4294967296 THEN -1 ELSE 0 END AS w
  FROM candidates_2 AS p JOIN feature_counts_2 AS u ON p.unit = u.unit WHERE u.t <= 30
  UNION ALL SELECT feature, 11965 AS w FROM kept_features_2
) AS weighted GROUP BY feature) AS grouped

-- candidates_3 : (unit, feature), not released before
SELECT unit, feature FROM unit_features WHERE CAST(feature AS VARCHAR) NOT IN (SELECT feature FROM released_2)

-- feature_counts_3 : (unit, t), t features of the unit
SELECT unit, COUNT(*) AS t FROM candidates_3 GROUP BY unit

-- kept_features_3 : (unit, feature), `cap` features of each unit that has more
SELECT unit, feature
FROM (SELECT p.unit, p.feature, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':feature' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.feature AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.feature AS VARCHAR), 256), CAST(p.feature AS VARCHAR)) AS n
      FROM candidates_3 AS p JOIN feature_counts_3 AS u ON p.unit = u.unit WHERE u.t > 30) AS ordered
WHERE n <= 30

-- weights_3 : (feature, sum), what noise is added to; features that reach the threshold are released, sums are not
SELECT CAST(feature AS VARCHAR) AS feature, CAST(GREATEST(LEAST(total, 2305843009213693952), -2305843009213693952) AS BIGINT) AS sum
FROM (SELECT feature, SUM(w) AS total FROM (
  SELECT p.feature, CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) - CASE WHEN u.t * CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) * CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) > 4294967296 THEN 1 WHEN u.t * (CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) + 1) * (CAST(FLOOR(SQRT(CAST(4294967296 AS DOUBLE) / u.t)) AS BIGINT) + 1) <= 4294967296 THEN -1 ELSE 0 END AS w
  FROM candidates_3 AS p JOIN feature_counts_3 AS u ON p.unit = u.unit WHERE u.t <= 30
  UNION ALL SELECT feature, 11965 AS w FROM kept_features_3
) AS weighted GROUP BY feature) AS grouped

-- chosen : as rows, features of the released vocabulary
SELECT * FROM sampled WHERE CAST(feature AS VARCHAR) IN (SELECT feature FROM released_3)

-- pairs : (unit, feature, label)
SELECT DISTINCT unit, feature, label FROM chosen

-- unit_labels : (unit, label, t), t pairs of the unit under the label
SELECT unit, label, COUNT(*) AS t FROM pairs GROUP BY unit, label

-- units : (unit, labels, t, light)
SELECT *, labels <= 1 AND t <= 30 AS light
FROM (SELECT unit, COUNT(*) AS labels, SUM(t) AS t FROM unit_labels GROUP BY unit) AS u

-- kept_labels : (unit, label), at most `labels` of each unit that is beyond a cap
SELECT unit, label
FROM (SELECT p.unit, p.label, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':label' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.label AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.label AS VARCHAR), 256), CAST(p.label AS VARCHAR)) AS n
      FROM unit_labels AS p JOIN units AS u ON p.unit = u.unit WHERE NOT u.light) AS ordered
WHERE n <= 1

-- kept_pairs : (unit, feature, label), at most `cap` of each such unit
SELECT unit, feature, label
FROM (SELECT p.*, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':pair' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.feature AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.feature AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.label AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.label AS VARCHAR), 256), CAST(p.feature AS VARCHAR), CAST(p.label AS VARCHAR)) AS n
      FROM pairs AS p JOIN kept_labels AS k ON p.unit = k.unit AND p.label = k.label) AS ordered
WHERE n <= 30

-- bounded : (unit, feature, label, x)
SELECT p.unit, feature, label, w AS x
FROM pairs AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a ON p.unit = a.unit
UNION ALL
SELECT p.unit, feature, label, w AS x
FROM kept_pairs AS p JOIN (
  SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k
) AS b ON p.unit = b.unit

-- joint : (feature, label, sum)
SELECT CAST(feature AS VARCHAR) AS feature, CAST(label AS VARCHAR) AS label, CAST(GREATEST(LEAST(total, 2305843009213693952), -2305843009213693952) AS BIGINT) AS sum
FROM (SELECT feature, label, SUM(x) AS total FROM bounded GROUP BY feature, label) AS grouped

-- label_units : (label, sum)
SELECT CAST(label AS VARCHAR) AS label, SUM(w) AS sum FROM (
  SELECT p.label, w FROM unit_labels AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a ON p.unit = a.unit
  UNION ALL SELECT p.label, w FROM (SELECT DISTINCT unit, label FROM kept_pairs) AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k) AS b ON p.unit = b.unit
) AS once GROUP BY label

-- all_units : (sum)
SELECT SUM(w) AS sum FROM (SELECT w FROM (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a
  UNION ALL SELECT w FROM (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k) AS b) AS w

-- units
-- listed : as rows, keys on the public lists
SELECT * FROM rows WHERE CAST(label AS VARCHAR) IN (SELECT label FROM public_labels)

-- pairs : (unit, feature, label)
SELECT DISTINCT unit, feature, label FROM listed

-- unit_labels : (unit, label, t), t pairs of the unit under the label
SELECT unit, label, COUNT(*) AS t FROM pairs GROUP BY unit, label

-- units : (unit, labels, t, light)
SELECT *, labels <= 2 AND t <= 30 AS light
FROM (SELECT unit, COUNT(*) AS labels, SUM(t) AS t FROM unit_labels GROUP BY unit) AS u

-- kept_labels : (unit, label), at most `labels` of each unit that is beyond a cap
SELECT unit, label
FROM (SELECT p.unit, p.label, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':label' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.label AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.label AS VARCHAR), 256), CAST(p.label AS VARCHAR)) AS n
      FROM unit_labels AS p JOIN units AS u ON p.unit = u.unit WHERE NOT u.light) AS ordered
WHERE n <= 2

-- kept_pairs : (unit, feature, label), at most `cap` of each such unit
SELECT unit, feature, label
FROM (SELECT p.*, ROW_NUMBER() OVER (PARTITION BY p.unit ORDER BY SHA2((SELECT salt FROM secret) || ':pair' || ':' || CAST(LENGTH(CAST(p.unit AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.unit AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.feature AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.feature AS VARCHAR) || ':' || CAST(LENGTH(CAST(p.label AS VARCHAR)) AS VARCHAR) || ':' || CAST(p.label AS VARCHAR), 256), CAST(p.feature AS VARCHAR), CAST(p.label AS VARCHAR)) AS n
      FROM pairs AS p JOIN kept_labels AS k ON p.unit = k.unit AND p.label = k.label) AS ordered
WHERE n <= 30

-- bounded : (unit, feature, label, x)
SELECT p.unit, feature, label, w AS x
FROM pairs AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a ON p.unit = a.unit
UNION ALL
SELECT p.unit, feature, label, w AS x
FROM kept_pairs AS p JOIN (
  SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k
) AS b ON p.unit = b.unit

-- joint : (feature, label, sum)
SELECT CAST(feature AS VARCHAR) AS feature, CAST(label AS VARCHAR) AS label, CAST(GREATEST(LEAST(total, 2305843009213693952), -2305843009213693952) AS BIGINT) AS sum
FROM (SELECT feature, label, SUM(x) AS total FROM bounded GROUP BY feature, label) AS grouped

-- label_units : (label, sum)
SELECT CAST(label AS VARCHAR) AS label, SUM(w) AS sum FROM (
  SELECT p.label, w FROM unit_labels AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a ON p.unit = a.unit
  UNION ALL SELECT p.label, w FROM (SELECT DISTINCT unit, label FROM kept_pairs) AS p JOIN (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k) AS b ON p.unit = b.unit
) AS once GROUP BY label

-- all_units : (sum)
SELECT SUM(w) AS sum FROM (SELECT w FROM (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM units WHERE light) AS a
  UNION ALL SELECT w FROM (SELECT unit, CAST(CASE WHEN t <= 3 AND t <= 6 THEN 256 ELSE FLOOR(LEAST(SQRT(CAST(1.96608000000000000e+05 AS DOUBLE) / t), CAST(1.53600000000000000e+03 AS DOUBLE) / t) * CAST(9.99999999999090505e-01 AS DOUBLE)) END AS SMALLINT) AS w FROM (SELECT unit, COUNT(*) AS t FROM kept_pairs GROUP BY unit) AS k) AS b) AS w

-- feature_units : (feature, sum)
SELECT CAST(feature AS VARCHAR) AS feature, SUM(x) AS sum FROM (
  SELECT unit, feature, MAX(x) AS x FROM bounded GROUP BY unit, feature
) AS once GROUP BY feature
