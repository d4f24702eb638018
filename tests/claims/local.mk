# tests/claims: run by `make claims` (top Makefile.am); nothing is built here.
