noinst_LIBRARIES += proto/text/libtext.a
proto_text_libtext_a_SOURCES = \
  proto/text/field.c proto/text/field.h \
  proto/text/layers.c proto/text/layers.h \
  proto/text/yaml.h \
  proto/text/yaml_parse.c proto/text/yaml_parse.h \
  proto/text/yaml_read.c proto/text/yaml_read.h \
  proto/text/yaml_write.c proto/text/yaml_write.h

# Programs that link libtext need these behind it.
TEXT_LIBS = proto/text/libtext.a $(YAML_LIBS) $(BASE_LIBS)
