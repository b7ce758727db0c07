package request

import "time"

// start is the instant at which exchanges end.
var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
