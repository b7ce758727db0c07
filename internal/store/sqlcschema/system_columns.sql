-- For sqlc only, and never executed: every table of Postgres has this column, and sqlc does not know it. It is the place of a row version.
ALTER TABLE schedules ADD COLUMN ctid tid NOT NULL;
