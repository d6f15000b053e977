-- Nothing was made; see the way up.
SELECT 1;
