package share

import (
	"path/filepath"
	"strconv"
	"strings"
)

func (m *member) Meeting(slot int) string {
	dir, lock := filepath.Split(m.paths.lock)
	return filepath.Join(dir, "ring"+strings.TrimPrefix(lock, "slots")+"-"+strconv.Itoa(slot))
}
