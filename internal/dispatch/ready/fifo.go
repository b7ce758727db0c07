package ready

// fifo is a queue of items. Its zero value is empty.
type fifo struct {
	list []*Item
	head int
}

func (f *fifo) push(i *Item) {
	// Compact before growing, because a queue that never runs empty would otherwise grow without
	// bound.
	if len(f.list) == cap(f.list) && f.head > len(f.list)/2 {
		n := copy(f.list, f.list[f.head:])
		clear(f.list[n:])
		f.list, f.head = f.list[:n], 0
	}
	f.list = append(f.list, i)
}

// insert adds an item before those at the end with a later turn. Items come in the order of their
// due times, so that only one with a head start moves far.
func (f *fifo) insert(i *Item) {
	f.push(i)
	for n := len(f.list) - 1; n > f.head && i.turn().Before(f.list[n-1].turn()); n-- {
		f.list[n], f.list[n-1] = f.list[n-1], i
	}
}

// first returns the oldest item, or nil if the queue is empty.
func (f *fifo) first() *Item {
	if f.size() == 0 {
		return nil
	}
	return f.list[f.head]
}

// pop removes and returns the oldest item, or nil if the queue is empty.
func (f *fifo) pop() *Item {
	i := f.first()
	if i == nil {
		return nil
	}
	f.list[f.head] = nil
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	}
	return i
}

func (f *fifo) size() int { return len(f.list) - f.head }

// clear removes and returns all items.
func (f *fifo) clear() []*Item {
	list := f.list[f.head:]
	f.list, f.head = nil, 0
	return list
}
