"""How code libraries are made, linked and kept, and the types of annotations."""
