"""Benching: how fast a run trains on this machine, with its real model, data, engine and supervisor."""
