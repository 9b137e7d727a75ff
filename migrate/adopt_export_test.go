package migrate

// SetAdoptHook lets a test fail before a statement.
func SetAdoptHook(p *AdoptPlan, hook func(AdoptStatement) error) { p.hook = hook }
