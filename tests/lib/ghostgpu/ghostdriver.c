/* What is asked for first: a driver. Nothing is called in it. */
extern const int hsp_ghost_driver;
const int hsp_ghost_driver = 1;
