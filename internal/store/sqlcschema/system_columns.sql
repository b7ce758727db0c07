-- For sqlc only, never executed. Every table of Postgres has the system column ctid, the physical place
-- of a row version, but sqlc does not know system columns.
ALTER TABLE schedules ADD COLUMN ctid tid NOT NULL;
