package simulation

// idSet holds positive ids, in one array with open addressing: a map would
// take four times the memory and half of the simulation's time.
type idSet struct {
	slots []int64 // 0 is an empty slot
	count int
	shift uint
}

// add reports whether id is new.
func (s *idSet) add(id int64) bool {
	if 2*(s.count+1) > len(s.slots) {
		s.grow()
	}
	i := s.find(id)
	if s.slots[i] == id {
		return false
	}
	s.slots[i] = id
	s.count++
	return true
}

func (s *idSet) find(id int64) int {
	const golden = 0x9e3779b97f4a7c15
	i := int(uint64(id) * golden >> s.shift)
	for s.slots[i] != 0 && s.slots[i] != id {
		i = (i + 1) & (len(s.slots) - 1)
	}
	return i
}

func (s *idSet) grow() {
	old := s.slots
	if s.shift == 0 {
		s.shift = 64 - 12
	}
	s.shift--
	s.slots = make([]int64, 1<<(64-s.shift))
	for _, id := range old {
		if id != 0 {
			s.slots[s.find(id)] = id
		}
	}
}
