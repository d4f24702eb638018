# tests/claims: nothing yet
