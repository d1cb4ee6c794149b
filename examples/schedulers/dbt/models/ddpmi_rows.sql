-- One row for each user, site and country. Each row comes from the records of one user alone:
-- no LIMIT, no window or join across users, and no filter by how frequent a site is.
select distinct
    user_id,
    lower(site) as site,
    country
from {{ source('web', 'visits') }}
where visited >= {{ "date '" ~ var('week_start') ~ "'" }}
