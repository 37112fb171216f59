"""Planning: what a specification will do, without starting anything."""
