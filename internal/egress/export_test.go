package egress

// waiting returns how many requests wait for a seat.
func (s *seats) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := 0
	for _, b := range s.hosts {
		number += len(b.waiting)
	}
	return number
}
