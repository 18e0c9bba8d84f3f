"""The kinds of indexes, one module each; `registered` names them."""
