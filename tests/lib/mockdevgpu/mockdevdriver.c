/* Stands for the driver, whose presence is asked for first. Nothing is called in it. */
extern const int hsp_mockdev_driver;
const int hsp_mockdev_driver = 1;
