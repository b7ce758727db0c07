-- Apart from the step before, so that endpoints are read and written meanwhile.

-- +goose Up
ALTER TABLE endpoints VALIDATE CONSTRAINT endpoints_sound;

-- +goose Down
ALTER TABLE endpoints DROP CONSTRAINT endpoints_sound, ADD CONSTRAINT endpoints_sound CHECK (endpoint_is_sound(endpoints)) NOT VALID;
