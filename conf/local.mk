dist_doc_DATA = README.md COPYING
hspmdconfdir = $(docdir)/examples
dist_hspmdconf_DATA = conf/hspmdd.yaml conf/hspmd-worker.yaml conf/events.schema.json
