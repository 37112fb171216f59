"""scheduler-plugins, whose Coscheduling starts the pods of a group together."""
