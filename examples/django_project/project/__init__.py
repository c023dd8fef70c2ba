"""A newsletter whose dispatches are told what became of them."""
